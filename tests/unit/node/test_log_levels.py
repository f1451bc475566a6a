"""Levels of loggers by Kafka's names."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from penstock.core.errors import InvalidConfig, InvalidRequest
from penstock.node.log_levels import ROOT, check_logger_level, logger_levels, set_logger_level

NAME = "penstock.test-levels"


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    logging.getLogger("penstock")
    one = logging.getLogger(NAME)
    yield one
    one.setLevel(logging.NOTSET)


@pytest.mark.parametrize(
    ("level", "number"), [("DEBUG", 10), ("INFO", 20), ("WARN", 30), ("ERROR", 40), ("FATAL", 50)]
)
def test_a_level_that_was_set_is_shown(logger: logging.Logger, level: str, number: int) -> None:
    check_logger_level(NAME, level)
    set_logger_level(NAME, level)
    assert (logger.level, logger_levels()[NAME]) == (number, level)


def test_trace_is_as_much_as_there_is(logger: logging.Logger) -> None:
    set_logger_level(NAME, "TRACE")
    assert logger.level == logging.DEBUG


def test_a_level_that_was_taken_away_is_that_of_the_logger_above(logger: logging.Logger) -> None:
    set_logger_level(NAME, "ERROR")
    check_logger_level(NAME, None)
    set_logger_level(NAME, None)
    assert logger.level == logging.NOTSET
    assert logger_levels()[NAME] == logger_levels()["penstock"]


def test_only_our_loggers_and_the_root_are_shown() -> None:
    logging.getLogger("other.library")
    assert ROOT in logger_levels() and "other.library" not in logger_levels()


@pytest.mark.parametrize(
    ("name", "level", "error"),
    [
        (NAME, "LOUD", InvalidConfig),
        ("penstock.no-such-logger", "INFO", InvalidConfig),
        ("other.library", "INFO", InvalidConfig),
        (ROOT, None, InvalidRequest),
    ],
)
def test_what_is_refused(name: str, level: str | None, error: type[Exception]) -> None:
    with pytest.raises(error):
        check_logger_level(name, level)
