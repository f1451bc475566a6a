"""Logger levels of this process, by Kafka's names, changed at run time. They are lost on restart, as in Kafka."""

from __future__ import annotations

import logging

from penstock.core.errors import InvalidConfig, InvalidRequest
from penstock.node.logs import ROOT_LOGGER

ROOT = "root"
LEVELS = {
    "TRACE": logging.DEBUG,
    "DEBUG": logging.DEBUG,
    "INFO": logging.INFO,
    "WARN": logging.WARNING,
    "ERROR": logging.ERROR,
    "FATAL": logging.CRITICAL,
}
_NAMES = {number: name for name, number in LEVELS.items()}


def logger_levels() -> dict[str, str]:
    """The effective level of each logger of the broker, sorted by name; `root` stands for all libraries."""
    named = logging.root.manager.loggerDict
    names = [name for name, one in named.items() if isinstance(one, logging.Logger) and _is_ours(name)]
    return {name: _text(_logger(name).getEffectiveLevel()) for name in sorted([ROOT, *names])}


def check_logger_level(name: str, level: str | None) -> None:
    """Reject unknown loggers, unknown levels, and removing the level of the root logger."""
    if level is not None and level not in LEVELS:
        raise InvalidConfig(
            f"Cannot set the log level of {name} to {level} as it is not a supported log level."
            f" Valid log levels are {', '.join(sorted(LEVELS))}"
        )
    if level is None and name == ROOT:
        raise InvalidRequest("Removing the log level of the root logger is not allowed")
    if name not in logger_levels():
        raise InvalidConfig(f"Logger {name} does not exist!")


def set_logger_level(name: str, level: str | None) -> None:
    """Set a validated level; None inherits the level of the parent logger."""
    _logger(name).setLevel(logging.NOTSET if level is None else LEVELS[level])


def _logger(name: str) -> logging.Logger:
    return logging.getLogger(None if name == ROOT else name)


def _is_ours(name: str) -> bool:
    return name == ROOT_LOGGER or name.startswith(ROOT_LOGGER + ".")


def _text(level: int) -> str:
    """A level between two names is shown as the lower one."""
    return _NAMES[max((number for number in _NAMES if number <= level), default=logging.DEBUG)]
