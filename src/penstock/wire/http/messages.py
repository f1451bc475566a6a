"""Messages to JSON and back, lossless: bytes that are not UTF-8 become base64 in a field of their own.

A string value is its UTF-8 bytes, null is a tombstone, and any other JSON value is its compact JSON.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Collection, Mapping
from contextlib import suppress
from enum import StrEnum
from typing import Any, NoReturn

from penstock.core.errors import InvalidRequest, TooLarge
from penstock.core.limits import DOOR_HEADERS_MAX, JSON_VALUES_MAX
from penstock.core.model import NO_TIMESTAMP, Header, NewRecord, Record
from penstock.wire.http.response import json_bytes
from penstock.wire.json.bounds import check_values
from penstock.wire.json.frames import finite

TIMESTAMP_MS_MAX = 2**53 - 1
"""Larger JSON numbers are not exact in all clients."""

MESSAGE_FIELDS = ("key", "key_base64", "value", "value_base64", "headers", "timestamp_ms")


class Show(StrEnum):
    """How values are shown to a reader."""

    JSON = "json"
    TEXT = "text"
    BASE64 = "base64"


def read_object(body: bytes, fields: Collection[str]) -> dict[str, Any]:
    """Decode a body that must be a JSON object with only these fields."""
    check_values(body, JSON_VALUES_MAX, "the body")
    try:
        found = json.loads(body, parse_constant=_refuse_constant, parse_float=finite)
    except UnicodeDecodeError:
        raise InvalidRequest("the body is not UTF-8") from None
    except RecursionError:
        raise InvalidRequest("the body is nested too deeply") from None
    except ValueError as error:
        raise InvalidRequest(f"the body is not JSON: {error}") from None
    return check_object(found, fields, "the body")


def _refuse_constant(word: str) -> NoReturn:
    raise ValueError(f"{word} is not a valid JSON number")


def check_object(found: object, fields: Collection[str], where: str) -> dict[str, Any]:
    """Reject anything but an object, and unknown fields."""
    if not isinstance(found, dict):
        raise InvalidRequest(f"{where} must be a JSON object")
    for name in found:
        if name not in fields:
            raise InvalidRequest(
                f"{where} has an unknown field {name[:100]!r}; known fields are {', '.join(fields)}"
            )
    return found


def read_text(found: Mapping[str, Any], name: str, where: str) -> str:
    """A required string field."""
    value = found.get(name)
    if not isinstance(value, str):
        raise InvalidRequest(f"{where} needs a string field {name!r}")
    return value


def read_number(found: Mapping[str, Any], name: str, low: int, high: int, where: str) -> int | None:
    """An integer within bounds (`5.0` counts as one), or None if absent."""
    value = found.get(name)
    if value is None and name not in found:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise InvalidRequest(f"{name!r} of {where} must be an integer from {low} to {high}")
    return value


def read_message(found: Mapping[str, Any], where: str) -> NewRecord:
    """The record of a message."""
    if ("value" in found) == ("value_base64" in found):
        raise InvalidRequest(f"{where} needs either 'value' or 'value_base64'")
    value = found.get("value")
    if isinstance(value, str):
        content = _utf8(value, "value", where)
    elif value is not None:
        content = _compact(value, where)
    elif "value_base64" in found:
        content = _base64(found["value_base64"], "value_base64", where)
    else:
        content = None
    timestamp_ms = NO_TIMESTAMP
    if "timestamp_ms" in found:
        timestamp_ms = read_number(found, "timestamp_ms", 0, TIMESTAMP_MS_MAX, where) or 0
    headers = found.get("headers")
    return NewRecord(
        _read_key(found, where),
        content,
        () if headers is None and "headers" not in found else _read_headers(headers, where),
        timestamp_ms,
    )


def _read_key(found: Mapping[str, Any], where: str) -> bytes | None:
    if "key_base64" in found:
        if "key" in found:
            raise InvalidRequest(f"{where} has both 'key' and 'key_base64'")
        return _base64(found["key_base64"], "key_base64", where)
    key = found.get("key")
    if key is None:
        return None
    if not isinstance(key, str):
        raise InvalidRequest(f"'key' of {where} must be a string or null")
    return _utf8(key, "key", where)


def _read_headers(found: object, where: str) -> tuple[Header, ...]:
    if not isinstance(found, dict):
        raise InvalidRequest(f"'headers' of {where} must be an object")
    if sum(len(value) if isinstance(value, list) else 1 for value in found.values()) > DOOR_HEADERS_MAX:
        raise TooLarge(f"{where} has more than {DOOR_HEADERS_MAX} headers")
    headers = []
    for name, value in found.items():
        _utf8(name, "a header's name", where)
        for one in value if isinstance(value, list) else (value,):
            headers.append(Header(name, _read_header(one, name, where)))
    return tuple(headers)


def _read_header(value: object, name: str, where: str) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return _utf8(value, f"header {name[:100]!r}", where)
    if isinstance(value, dict) and value.keys() == {"base64"}:
        return _base64(value["base64"], f"header {name[:100]!r}", where)
    raise InvalidRequest(
        f'header {name[:100]!r} of {where} must be a string, null, {{"base64": …}}, or a list of these'
    )


def _utf8(text: str, name: str, where: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(
            f"{name} of {where} contains a lone surrogate, which UTF-8 cannot encode"
        ) from None


def _compact(value: object, where: str) -> bytes:
    try:
        return json_bytes(value)
    except ValueError:
        raise InvalidRequest(f"'value' of {where} contains a number that is too large for JSON") from None
    except RecursionError:
        raise InvalidRequest(f"'value' of {where} is nested too deeply") from None


def _base64(text: object, name: str, where: str) -> bytes:
    with suppress(NotBase64, ValueError):
        if isinstance(text, str):
            return b64decode(text, validate=True)
    raise InvalidRequest(f"{name} of {where} is not base64")


# -- records to JSON


def show_message(record: Record, show: Show = Show.JSON) -> dict[str, Any]:
    """A record as JSON."""
    shown: dict[str, Any] = {"offset": record.offset, "timestamp_ms": record.timestamp_ms}
    _show_bytes(shown, "key", record.key, Show.TEXT if show is Show.JSON else show)
    _show_bytes(shown, "value", record.value, show)
    headers: dict[str, Any] = {}
    for name, value in record.headers:
        one = _show_header(value)
        if name not in headers:
            headers[name] = one
        elif isinstance(headers[name], list):
            headers[name].append(one)
        else:
            headers[name] = [headers[name], one]
    shown["headers"] = headers
    return shown


def _show_bytes(shown: dict[str, Any], name: str, content: bytes | None, show: Show) -> None:
    if content is None:
        shown[name] = None
        return
    if show is not Show.BASE64:
        with suppress(UnicodeDecodeError):
            text = content.decode()
            shown[name] = _structure(text) if show is Show.JSON and text[:1] in ("{", "[") else text
            return
    shown[f"{name}_base64"] = b64encode(content).decode()


def _structure(text: str) -> Any:
    """The decoded object or list, if the text is one; else the text."""
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=finite)
    except (ValueError, RecursionError):
        return text


def _show_header(value: bytes | None) -> Any:
    if value is None:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return {"base64": b64encode(value).decode()}
