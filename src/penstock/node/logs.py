"""Logging of a node, as text or JSON. No logged value can break a line.

Log lines contain topic names, client ids and other client input, so unprintable characters are escaped here, once.
Structured fields are passed as `logger.info("…", extra={"topic": name})`.
"""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TextIO

from penstock.core.printable import escape
from penstock.node.log_choices import LogFormat, LogLevel

ROOT_LOGGER = "penstock"

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}
_JSON_OWN = ("time", "level", "logger", "message", "exception", "node")


def configure_logging(
    level: LogLevel, log_format: LogFormat, stream: TextIO, *, node_id: int | None = None
) -> None:
    """Send log lines of `penstock`, and warnings of other libraries, to the stream, each with the node id if there is
    one. Replaces the previous configuration."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter((JsonFormatter if log_format is LogFormat.JSON else TextFormatter)(node_id))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(ROOT_LOGGER).setLevel(level.value.upper())


class TextFormatter(logging.Formatter):
    """`2026-01-01T00:00:00.000Z INFO    broker            message  topic=orders partition=0`; with a node id,
    `broker-1` comes before the logger."""

    def __init__(self, node_id: int | None = None) -> None:
        super().__init__()
        self._label = "" if node_id is None else f"broker-{node_id} "

    def format(self, record: logging.LogRecord) -> str:
        name = record.name.removeprefix(ROOT_LOGGER + ".")
        line = f"{_time(record)} {record.levelname:<7} {self._label}{name:<17} {escape(record.getMessage())}"
        fields = " ".join(f"{escape(key)}={_text_value(value)}" for key, value in _fields(record).items())
        trace = "".join(f"\n    {escape(part)}" for part in _trace(self, record).splitlines())
        return f"{line}  {fields}{trace}" if fields else line + trace


class JsonFormatter(logging.Formatter):
    """One JSON object per line: time, level, logger, node id, message, then the fields, then the exception if there is
    one."""

    def __init__(self, node_id: int | None = None) -> None:
        super().__init__()
        self._node: dict[str, object] = {} if node_id is None else {"node": node_id}

    def format(self, record: logging.LogRecord) -> str:
        content: dict[str, object] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            **self._node,
            "message": record.getMessage(),
        }
        for key, value in _fields(record).items():
            content[f"{key}_" if key in _JSON_OWN else key] = value
        trace = _trace(self, record)
        if trace:
            content["exception"] = trace
        return json.dumps(content, default=str)


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {key: value for key, value in vars(record).items() if key not in _STANDARD}


def _text_value(value: object) -> str:
    text = str(value)
    if text and text.isprintable() and not any(char in text for char in ' "='):
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    parts = []
    if record.exc_info:
        parts.append(formatter.formatException(record.exc_info))
    if record.stack_info:
        parts.append(formatter.formatStack(record.stack_info))
    return "\n".join(parts)
