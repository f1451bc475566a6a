"""Log lines stay lines, whatever a client put into them."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from penstock.node.log_choices import LogFormat, LogLevel
from penstock.node.logs import configure_logging, escape

EVIL = "a\r\nFAKE\x1b[31m\x9b\u2028\u202e\x00"


@pytest.fixture
def restored() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    logging.getLogger("penstock").setLevel(logging.NOTSET)


def written(log_format: LogFormat, level: LogLevel = LogLevel.INFO) -> tuple[logging.Logger, io.StringIO]:
    stream = io.StringIO()
    configure_logging(level, log_format, stream)
    return logging.getLogger("penstock.node.broker"), stream


def test_escape() -> None:
    assert escape("größe ✓") == "größe ✓"
    assert escape(EVIL) == "a\\r\\nFAKE\\x1b[31m\\x9b\\u2028\\u202e\\x00"


@pytest.mark.usefixtures("restored")
def test_text() -> None:
    log, stream = written(LogFormat.TEXT)
    log.info("opened %s", EVIL, extra={"topic": "orders", "client": EVIL, "note": "two words", "empty": ""})
    line = stream.getvalue()
    assert line.count("\n") == 1 and line.rstrip("\n").isprintable()
    assert " INFO    node.broker " in line
    assert 'topic=orders client="a\\r\\nFAKE' in line and 'note="two words" empty=""' in line


@pytest.mark.usefixtures("restored")
def test_json() -> None:
    log, stream = written(LogFormat.JSON)
    log.warning("opened %s", EVIL, extra={"topic": EVIL, "offset": 5, "raw": b"\xff", "level": "mine"})
    assert stream.getvalue().count("\n") == 1 and stream.getvalue().rstrip("\n").isprintable()
    content = json.loads(stream.getvalue())
    assert content["message"] == f"opened {EVIL}" and content["topic"] == EVIL
    assert (content["level"], content["level_"], content["offset"]) == ("warning", "mine", 5)
    assert content["raw"] == "b'\\xff'" and content["logger"] == "penstock.node.broker"
    assert content["time"].endswith("Z")


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("log_format", list(LogFormat))
def test_exceptions(log_format: LogFormat) -> None:
    log, stream = written(log_format)
    try:
        raise ValueError(EVIL)
    except ValueError:
        log.exception("failed")
    text = stream.getvalue()
    assert "Traceback" in text and "\x1b" not in text and "\r" not in text
    first, *rest = text.rstrip("\n").split("\n")
    assert "failed" in first and all(line.startswith("    ") for line in rest)


@pytest.mark.usefixtures("restored")
def test_level() -> None:
    log, stream = written(LogFormat.TEXT, LogLevel.ERROR)
    log.warning("hidden")
    log.error("shown")
    logging.getLogger("elsewhere").info("hidden")
    logging.getLogger("elsewhere").warning("of others")
    assert "hidden" not in stream.getvalue()
    assert "shown" in stream.getvalue() and "of others" in stream.getvalue()


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize("log_format", list(LogFormat))
def test_lines_of_a_cluster_say_whose_they_are(log_format: LogFormat) -> None:
    stream = io.StringIO()
    configure_logging(LogLevel.INFO, log_format, stream, node_id=3)
    logging.getLogger("penstock.serve").info("ready", extra={"node": 4})
    if log_format is LogFormat.JSON:
        content = json.loads(stream.getvalue())
        assert (content["node"], content["node_"]) == (3, 4)
    else:
        assert " INFO    broker-3 serve " in stream.getvalue()
