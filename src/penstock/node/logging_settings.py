"""Settings of the node's own log lines. `node/settings` assembles the sections."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.node.definitions.definition import SettingKind, define_setting
from penstock.node.log_choices import LogFormat, LogLevel


@dataclass(frozen=True, init=False, repr=False, eq=False)
class LoggingSettings:
    """What is logged, and how."""

    log_level: LogLevel = define_setting(
        SettingKind.CHOICE,
        "logging",
        LogLevel.INFO,
        "Lowest severity that is logged.",
        choices=LogLevel,
        aliases=("logging.level",),
    )
    log_format: LogFormat = define_setting(
        SettingKind.CHOICE,
        "logging",
        LogFormat.TEXT,
        "Format of log lines: text, or one JSON object per line.",
        choices=LogFormat,
        aliases=("logging.format",),
    )
