"""Values of the logging settings. node/logs.py applies them."""

from __future__ import annotations

from enum import StrEnum


class LogLevel(StrEnum):
    """How much the broker says."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @classmethod
    def _missing_(cls, value: object) -> LogLevel | None:
        return {"warn": cls.WARNING, "information": cls.INFO}.get(str(value))


class LogFormat(StrEnum):
    """How the broker says it."""

    TEXT = "text"
    JSON = "json"
