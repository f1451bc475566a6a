"""Field kinds of the metadata protocol: how one value is encoded and decoded. Validates every length; no I/O.

Numbers are big-endian. Texts are UTF-8 with a two-byte length, blobs have a four-byte length, lists a four-byte count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from struct import Struct
from typing import Any, NamedTuple

from penstock.core.errors import Malformed
from penstock.wire.frame_fields import FrameFields

MetadataRecord = tuple[bytes, bytes | None]
"""Key and value of one event; a null value deletes the key."""

_FLAG = Struct(">B")
_SHORT = Struct(">H")
_COUNT = Struct(">I")
_SIGNED = Struct(">i")
_LONG = Struct(">Q")
_SESSION_BYTES_MIN = _SHORT.size + _SIGNED.size + _LONG.size
NULL_LENGTH = -1


class FieldKind(NamedTuple):
    """One kind of value, both ways."""

    encode: Callable[[Any], bytes]
    decode: Callable[[FrameFields], Any]


def _encode_text(value: str) -> bytes:
    raw = value.encode()
    return _SHORT.pack(len(raw)) + raw


def _decode_flag(fields: FrameFields) -> bool:
    value = fields.number(_FLAG)
    if value > 1:
        raise Malformed(f"a flag is {value}, not 0 or 1")
    return bool(value)


def _encode_session(value: tuple[str, int, int]) -> bytes:
    name, holder, number = value
    return _encode_text(name) + _SIGNED.pack(holder) + _LONG.pack(number)


def _decode_session(fields: FrameFields) -> tuple[str, int, int]:
    return fields.text(_SHORT), fields.number(_SIGNED), fields.number(_LONG)


def _list_of(kind: FieldKind, bytes_min: int) -> FieldKind:
    def encode_list(values: Sequence[Any]) -> bytes:
        return _COUNT.pack(len(values)) + b"".join(map(kind.encode, values))

    def decode_list(fields: FrameFields) -> tuple[Any, ...]:
        return tuple(kind.decode(fields) for _ in range(fields.count(_COUNT, bytes_min)))

    return FieldKind(encode_list, decode_list)


FLAG = FieldKind(lambda value: _FLAG.pack(value), _decode_flag)
SHORT = FieldKind(_SHORT.pack, lambda fields: fields.number(_SHORT))
SIGNED = FieldKind(_SIGNED.pack, lambda fields: fields.number(_SIGNED))
LONG = FieldKind(_LONG.pack, lambda fields: fields.number(_LONG))
TEXT = FieldKind(_encode_text, lambda fields: fields.text(_SHORT))
BLOB = FieldKind(
    lambda value: _COUNT.pack(len(value)) + value, lambda fields: fields.content(fields.number(_COUNT))
)
SESSION = FieldKind(_encode_session, _decode_session)
SESSIONS = _list_of(SESSION, _SESSION_BYTES_MIN)
LONGS = _list_of(LONG, _LONG.size)


def encode_metadata_records(records: Sequence[MetadataRecord]) -> bytes:
    """Records one after the other: key length, key, value length (-1: null), value."""
    parts: list[bytes] = []
    for key, value in records:
        length = NULL_LENGTH if value is None else len(value)
        parts += (_COUNT.pack(len(key)), key, _SIGNED.pack(length), value or b"")
    return b"".join(parts)


def decode_metadata_records(raw: bytes) -> Iterator[MetadataRecord]:
    """The records, one at a time, so that long lists can be decoded in slices. Raises Malformed."""
    fields = FrameFields(raw)
    while fields.left_bytes:
        key = fields.content(fields.number(_COUNT))
        length = fields.number(_SIGNED)
        if length < NULL_LENGTH:
            raise Malformed(f"the length of a value is {length}")
        yield key, None if length == NULL_LENGTH else fields.content(length)
