"""Records to JSON and back: strings for UTF-8, base64 in a field of its own otherwise. No I/O."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

from penstock.core.errors import Malformed, TooLarge
from penstock.core.limits import DOOR_HEADERS_MAX
from penstock.core.model import NO_TIMESTAMP, Header, NewRecord, Record
from penstock.wire.json.fields import Fields, shown

MESSAGE, KEY, HEADERS, TIME = "message", "key", "headers", "time"
_NAME, _VALUE = "name", "value"


def decode_message(fields: Fields) -> NewRecord:
    """Reads `message`, `key`, `headers` and `time`. The message is required but may be null."""
    if MESSAGE not in fields and f"{MESSAGE}_base64" not in fields:
        raise Malformed(f"PRODUCE needs {MESSAGE!r}, a string, or '{MESSAGE}_base64'")
    value, key = fields.content(MESSAGE), fields.content(KEY)
    time_ms = fields.number(TIME) if TIME in fields else NO_TIMESTAMP
    return NewRecord(key, value, _decode_headers(fields.take(HEADERS)), time_ms)


def _decode_headers(found: object) -> tuple[Header, ...]:
    """An object of strings, or a list of objects with `name` and `value` or `value_base64`; names may repeat."""
    if found is None:
        return ()
    if isinstance(found, dict | list) and len(found) > DOOR_HEADERS_MAX:
        raise TooLarge(f"a message has more than {DOOR_HEADERS_MAX} headers")
    if isinstance(found, dict):
        return tuple(
            _header(Fields({_NAME: name, _VALUE: value}, "a header")) for name, value in found.items()
        )
    if isinstance(found, list):
        return tuple(_header(Fields(one, "a header")) for one in found)
    raise Malformed(f"{HEADERS!r} must be an object or a list of objects, not {shown(found)}")


def _header(fields: Fields) -> Header:
    header = Header(fields.text(_NAME), fields.content(_VALUE))
    fields.check_empty()
    return header


def encode_message(record: Record) -> dict[str, Any]:
    """A record as JSON. A null key and empty headers are omitted."""
    answer: dict[str, Any] = {"offset": record.offset, TIME: record.timestamp_ms}
    if record.key is not None:
        _put(answer, KEY, record.key)
    _put(answer, MESSAGE, record.value)
    if record.headers:
        answer[HEADERS] = headers = []
        for name, content in record.headers:
            headers.append(header := {_NAME: name})
            _put(header, _VALUE, content)
    return answer


def _put(answer: dict[str, Any], name: str, content: bytes | None) -> None:
    try:
        answer[name] = None if content is None else content.decode()
    except UnicodeDecodeError:
        assert content is not None
        answer[f"{name}_base64"] = b64encode(content).decode()
