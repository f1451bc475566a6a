"""Values of the logging settings. node/logs.py applies them."""

from __future__ import annotations

from enum import StrEnum


class LogLevel(StrEnum):
    """Lowest severity that is logged."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"

    @classmethod
    def _missing_(cls, value: object) -> LogLevel | None:
        return {"warn": cls.WARNING, "information": cls.INFO}.get(str(value))


class LogFormat(StrEnum):
    """Format of log lines."""

    TEXT = "text"
    JSON = "json"
