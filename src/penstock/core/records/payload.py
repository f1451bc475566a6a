"""Decodes, walks and encodes the records of one uncompressed batch. Validates every length.

Inconsistent data raises CorruptBatch. The walk reads short varints inline, because a function call per number would
cost more than everything else.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from penstock.core.errors import CorruptBatch
from penstock.core.model import NO_TIMESTAMP, Header, NewRecord, Record
from penstock.core.records.varint import INT64_BYTES_MAX, decode_rest
from penstock.core.records.varint import decode as decode_varint
from penstock.core.records.varint import encode as encode_varint

RECORD_BYTES_MIN = 7
"""Length, attributes, two deltas, two lengths and a count: one byte each at least."""

_HEADER_BYTES_MIN = 2
_NULL = b"\x01"
_NO_HEADERS = b"\0"

_Step = tuple[int, int, int, int, bytes | None, int, int]
"""One record: start, end, timestamp delta, offset delta, key, start of the value (-1: null) and its end."""


class RecordSpan(NamedTuple):
    """What compaction needs of one record: its key, and the span of its bytes to copy."""

    offset_delta: int
    timestamp_delta: int
    key: bytes | None
    value_is_null: bool
    start: int
    end: int


def decode_records(
    payload: bytes | memoryview,
    count: int,
    base_offset: int,
    base_timestamp_ms: int,
    *,
    log_append_time_ms: int | None = None,
) -> list[Record]:
    """All records of a batch. With `log_append_time_ms` every record carries that time instead of its own."""
    data = bytes(payload)
    return list(decode_each(data, 0, count, base_offset, base_timestamp_ms, log_append_time_ms))


def decode_each(
    data: bytes,
    position: int,
    count: int,
    base_offset: int,
    base_timestamp_ms: int,
    log_append_time_ms: int | None,
) -> Iterator[Record]:
    """The same as a generator, for `count` records from a position on."""
    new = tuple.__new__
    for start, end, timestamp_delta, offset_delta, key, value_start, value_end in _walk(
        data, count, position
    ):
        value = data[value_start:value_end] if value_start >= 0 else None
        headers = (
            ()
            if value_end + 1 == end and data[value_end] == 0
            else _decode_headers(data, value_end, start, end)
        )
        timestamp_ms = (
            base_timestamp_ms + timestamp_delta if log_append_time_ms is None else log_append_time_ms
        )
        yield new(Record, (base_offset + offset_delta, timestamp_ms, key, value, headers))


def iterate_keys(payload: bytes | memoryview, count: int) -> Iterator[RecordSpan]:
    """The key and byte span of each record, in order. Headers are not decoded."""
    for start, end, timestamp_delta, offset_delta, key, value_start, _ in _walk(bytes(payload), count):
        yield RecordSpan(offset_delta, timestamp_delta, key, value_start < 0, start, end)


def encode_records(records: Sequence[NewRecord], base_timestamp_ms: int, first_delta: int = 0) -> bytes:
    """Records with offset deltas from `first_delta` on. One without a timestamp gets `base_timestamp_ms`."""
    out = bytearray()
    for offset_delta, (key, value, headers, timestamp_ms) in enumerate(records, first_delta):
        delta_ms = 0 if timestamp_ms == NO_TIMESTAMP else timestamp_ms - base_timestamp_ms
        body = bytearray(1)
        body += encode_varint(delta_ms)
        body += encode_varint(offset_delta)
        _put_nullable(body, key)
        _put_nullable(body, value)
        body += encode_headers(headers) if headers else _NO_HEADERS
        out += encode_varint(len(body))
        out += body
    return bytes(out)


def encode_headers(headers: Sequence[tuple[str, bytes | None]]) -> bytes:
    """The headers of one record, prefixed with their count."""
    out = bytearray(encode_varint(len(headers)))
    for name, content in headers:
        _put_nullable(out, name.encode())
        _put_nullable(out, content)
    return bytes(out)


def _put_nullable(body: bytearray, content: bytes | None) -> None:
    if content is None:
        body += _NULL
    else:
        body += encode_varint(len(content))
        body += content


def _decode_headers(data: bytes, position: int, start: int, end: int) -> tuple[Header, ...]:
    count, position = decode_varint(data, position)
    if not 0 <= count * _HEADER_BYTES_MIN <= end - position:
        raise CorruptBatch(
            f"the record at {start} claims {count} headers, but {end - position} bytes are left"
        )
    headers: list[Header] = []
    for _ in range(count):
        key, position = _decode_bytes(data, position, end)
        value, position = _decode_bytes(data, position, end)
        if key is None:
            raise CorruptBatch(f"the record at {start} has a header without a name")
        headers.append(Header(key.decode(errors="replace"), value))
    if position != end:
        raise CorruptBatch(f"the record at {start} does not end where its length says")
    return tuple(headers)


def _decode_bytes(data: bytes, position: int, end: int) -> tuple[bytes | None, int]:
    length, position = decode_varint(data, position)
    if length == -1:
        return None, position
    if not 0 <= length <= end - position:
        raise CorruptBatch(f"a header at {position} claims {length} bytes, but {end - position} are left")
    return data[position : position + length], position + length


def _walk(data: bytes, count: int, position: int = 0) -> Iterator[_Step]:
    size = len(data)
    if not 0 <= count * RECORD_BYTES_MIN <= size - position:
        raise CorruptBatch(f"{count} records cannot fit into {size - position} bytes")
    try:
        yield from _steps(data, size, count, position)
    except IndexError:
        raise CorruptBatch(f"the bytes end inside one of {count} records") from None


def _steps(data: bytes, size: int, count: int, position: int) -> Iterator[_Step]:
    for _ in range(count):
        start = position
        raw = data[position]
        position += 1
        if raw > 0x7F:
            if (byte := data[position]) < 0x80:
                raw += (byte << 7) - 0x80
                position += 1
            else:
                raw, position = decode_rest(data, position, raw)
        end = position + (raw >> 1)
        if raw & 1 or end > size:
            raise CorruptBatch(f"the record at {start} does not end within the {size} bytes of its batch")
        raw = data[position + 1]
        position += 2
        if raw > 0x7F:
            raw, position = decode_rest(data, position, raw, INT64_BYTES_MAX)
        timestamp_delta = (raw >> 1) ^ -(raw & 1)
        offset_raw = data[position]
        position += 1
        if offset_raw > 0x7F:
            if (byte := data[position]) < 0x80:
                offset_raw += (byte << 7) - 0x80
                position += 1
            else:
                offset_raw, position = decode_rest(data, position, offset_raw)
        raw = data[position]
        position += 1
        if raw > 0x7F:
            raw, position = decode_rest(data, position, raw)
        key = None if raw == 1 else data[position : position + (raw >> 1)]
        position += raw >> 1
        value_raw = data[position]
        position += 1
        if value_raw > 0x7F:
            if (byte := data[position]) < 0x80:
                value_raw += (byte << 7) - 0x80
                position += 1
            else:
                value_raw, position = decode_rest(data, position, value_raw)
        value_end = position + (value_raw >> 1)
        if offset_raw & 1 or value_end >= end or (raw & 1 and raw > 1) or (value_raw & 1 and value_raw > 1):
            raise CorruptBatch(f"the record at {start} has an invalid length or offset")
        yield start, end, timestamp_delta, offset_raw >> 1, key, position if value_raw != 1 else -1, value_end
        position = end
    if position != size:
        raise CorruptBatch(f"{size - position} bytes follow the last of {count} records")
