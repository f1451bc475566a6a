"""Codec of properties (`key=value`, each with a trailing zero byte) and of record headers in them. No I/O.

Names that start with `@` belong to the protocol; all others are headers of the message. Headers that plain text cannot
represent, such as a value with a zero byte or one that is not UTF-8, are sent as `@header`, so that none is lost.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from collections.abc import Iterable
from functools import lru_cache

from penstock.core.errors import Malformed, TooLarge
from penstock.core.limits import DOOR_HEADERS_MAX, DOOR_PROPERTIES_BYTES_MAX
from penstock.core.model import Header

Properties = tuple[tuple[str, str], ...]
"""Ordered; names may repeat, as in record headers."""

BROKERS_OWN = "@"
HEADER = "@header"
KEY, KEY_BASE64 = "@key", "@key64"
NULL_BODY = "@null"

_CACHED_BYTES_MAX = 256
_CACHED_COUNT = 1024


def encode_properties(properties: Iterable[tuple[str, str]]) -> bytes:
    """Raises Malformed, with the reason, for a property that cannot be encoded."""
    return b"".join([_encode_one(name, value) for name, value in properties])


def _encode_one(name: str, value: str) -> bytes:
    if not name:
        raise Malformed("a property needs a name")
    if "=" in name or "\0" in name:
        raise Malformed(f"the name of the property {name!r} may not contain '=' or a zero byte")
    if "\0" in value:
        raise Malformed(
            f"the value of the property {name!r} contains a zero byte; send it as {HEADER} instead"
        )
    try:
        return f"{name}={value}\0".encode()
    except UnicodeEncodeError:
        raise Malformed(f"the property {name!r} contains text that UTF-8 cannot encode") from None


def check_bounds(raw: bytes) -> None:
    """Raise TooLarge if a request has too many properties."""
    if len(raw) > DOOR_PROPERTIES_BYTES_MAX:
        raise TooLarge(f"properties of {len(raw)} bytes are over the limit of {DOOR_PROPERTIES_BYTES_MAX}")
    if raw.count(0) > DOOR_HEADERS_MAX:
        raise TooLarge(f"a request has at most {DOOR_HEADERS_MAX} properties")


def decode_properties(raw: bytes) -> Properties:
    """Decode properties. Raises Malformed unless each is `key=value` with a trailing zero byte."""
    return _decode_again(raw) if len(raw) <= _CACHED_BYTES_MAX else _decode(raw)


def _decode(raw: bytes) -> Properties:
    if not raw:
        return ()
    if raw[-1]:
        raise Malformed("the last property does not end with a zero byte")
    try:
        texts = raw.decode()[:-1].split("\0")
    except UnicodeDecodeError:
        raise Malformed("the properties are not UTF-8") from None
    pairs = []
    for text in texts:
        name, equals, value = text.partition("=")
        if not name or not equals:
            raise Malformed(f"the property {text!r} is not of the form key=value")
        pairs.append((name, value))
    return tuple(pairs)


_decode_again = lru_cache(_CACHED_COUNT)(_decode)
"""Cached, because acknowledgements of one member repeat the same few bytes."""


# -- records


def properties_of(key: bytes | None, headers: Iterable[Header], *, is_null: bool) -> Properties:
    """Encode key and headers of a record; `is_null` tells a null value from an empty body."""
    pairs: list[tuple[str, str]] = []
    if key is not None:
        text = _plain(key)
        pairs.append((KEY, text) if text is not None else (KEY_BASE64, b64encode(key).decode()))
    if is_null:
        pairs.append((NULL_BODY, "true"))
    for name, value in headers:
        text = _plain(value)
        if text is None or not name or name.startswith(BROKERS_OWN) or "=" in name or "\0" in name:
            pairs.append((HEADER, _packed(name, value)))
        else:
            pairs.append((name, text))
    return tuple(pairs)


def _plain(value: bytes | None) -> str | None:
    if value is None or b"\0" in value:
        return None
    try:
        return value.decode()
    except UnicodeDecodeError:
        return None


def _packed(name: str, value: bytes | None) -> str:
    packed = b64encode(name.encode()).decode()
    return packed if value is None else f"{packed}:{b64encode(value).decode()}"


def headers_in(properties: Properties) -> tuple[Header, ...]:
    """The message's headers, in order."""
    headers = []
    for name, value in properties:
        if name == HEADER:
            headers.append(_unpacked(value))
        elif not name.startswith(BROKERS_OWN):
            headers.append(Header(name, value.encode()))
    return tuple(headers)


def _unpacked(packed: str) -> Header:
    name, colon, value = packed.partition(":")
    try:
        text = from_base64(name, HEADER).decode()
    except UnicodeDecodeError:
        raise Malformed(f"{HEADER}: the name of a header is not UTF-8") from None
    return Header(text, from_base64(value, HEADER) if colon else None)


def from_base64(text: str, name: str) -> bytes:
    try:
        return b64decode(text, validate=True)
    except (NotBase64, ValueError):
        raise Malformed(f"{name}: {text!r} is not base64") from None


def key_in(properties: Properties) -> bytes | None:
    """The key of the message, if it has one."""
    key: bytes | None = None
    for name, value in properties:
        if name in (KEY, KEY_BASE64):
            if key is not None:
                raise Malformed("a message has two keys")
            key = value.encode() if name == KEY else from_base64(value, KEY_BASE64)
    return key
