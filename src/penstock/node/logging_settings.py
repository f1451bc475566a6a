"""Settings of the node's own log lines. `node/settings` assembles the sections."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.node.definitions.definition import Kind, setting
from penstock.node.log_choices import LogFormat, LogLevel


@dataclass(frozen=True, init=False, repr=False, eq=False)
class LoggingSettings:
    """What is logged, and how."""

    log_level: LogLevel = setting(
        Kind.CHOICE,
        "logging",
        LogLevel.INFO,
        "The least important message still written.",
        choices=LogLevel,
        aliases=("logging.level",),
    )
    log_format: LogFormat = setting(
        Kind.CHOICE,
        "logging",
        LogFormat.TEXT,
        "Lines for people, or one JSON object per line.",
        choices=LogFormat,
        aliases=("logging.format",),
    )
