"""Decodes fetched record batches to Arrow record batches with Kafka's columns, without an object per record.

Verifies checksums, skips control batches and aborted transactions, and allows gaps between offsets. The caller passes
the loops over records, compiled or not. No I/O.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
from google_crc32c import value as crc32c

from penstock.core.codecs import NONE
from penstock.core.errors import BrokerError, CorruptBatch
from penstock.core.limits import BATCH_HEADER_BYTES, DECOMPRESSED_BYTES_MAX
from penstock.core.records.batch import ATTRIBUTES_AT, BatchHeader, Buffer, decode_header, size_at
from penstock.core.records.compression import decompress
from penstock.core.records.visibility import AbortedProducer, VisibleBatches

PAYLOAD_BYTES_MAX = 32 << 20
"""The size from which rows form an Arrow batch, whose positions are 32-bit."""

TIME_MS_MAX = (2**63 - 1) // 1000
"""The latest timestamp that Arrow can represent in microseconds; later ones are clamped to it."""

_LENGTH_END = 12

HEADERS = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)
SCHEMA = pa.schema(
    [
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("timestampType", pa.int32()),
    ]
)
SCHEMA_WITH_HEADERS = SCHEMA.append(pa.field("headers", HEADERS))


class ColumnLoops(Protocol):
    """The loops over records: `columns_compiled` or `columns_loops`."""

    def walk(self, data: bytes, begin: int, end: int, count: int, spans: Any, row: int) -> None: ...

    def walk_headers(self, data: bytes, starts: Any, ends: Any) -> tuple[Any, Any]: ...

    def gather(self, data: bytes, starts: Any, lengths: Any) -> Any: ...


class WantedRows(NamedTuple):
    """The partition, the offset range (end exclusive), and whether to decode headers."""

    topic: str
    partition: int
    start_offset: int
    end_offset: int
    with_headers: bool = False


class Piece(NamedTuple):
    """The records of one batch: their bytes from `begin` on, and the batch header."""

    data: bytes
    begin: int
    header: BatchHeader


class DecodedRows(NamedTuple):
    """The rows of a run of batches, and the offset of the next fetch."""

    batches: list[Any]
    next_offset: int


def decode_columns(
    content: Buffer, wanted: WantedRows, aborted: Sequence[AbortedProducer], loops: ColumnLoops
) -> DecodedRows:
    """The wanted records of a run of batches, as one or more Arrow batches. A truncated last batch is skipped."""
    batches: list[Any] = []
    pieces: list[Piece] = []
    size = 0
    next_offset = wanted.start_offset
    for piece in _visible(content, aborted):
        next_offset = max(next_offset, piece.header.next_offset)
        if piece.begin < 0 or not piece.header.count or next_offset <= wanted.start_offset:
            continue
        if piece.header.base_offset >= wanted.end_offset:
            break
        pieces.append(piece)
        size += len(piece.data)
        if size >= PAYLOAD_BYTES_MAX:
            batches += _assemble(pieces, wanted, loops)
            pieces, size = [], 0
    if pieces:
        batches += _assemble(pieces, wanted, loops)
    return DecodedRows(batches, next_offset)


def _visible(content: Buffer, aborted: Sequence[AbortedProducer]) -> Iterator[Piece]:
    """All complete batches in order, verified. Invisible ones begin at -1: only their offsets matter."""
    view = memoryview(content)
    visible = VisibleBatches(aborted)
    position = 0
    while len(view) - position > _LENGTH_END and len(view) - position >= size_at(view, position):
        header = decode_header(view, position)
        body = bytes(view[position + ATTRIBUTES_AT : position + header.size])
        if crc32c(body) != header.crc:
            raise _damaged(header, "checksum mismatch")
        if visible.shows(view[position : position + header.size], header):
            yield _piece(body, header)
        else:
            yield Piece(b"", -1, header)
        position += header.size


def _piece(body: bytes, header: BatchHeader) -> Piece:
    begin = BATCH_HEADER_BYTES - ATTRIBUTES_AT
    if header.codec == NONE:
        return Piece(body, begin, header)
    try:
        return Piece(decompress(header.codec, body[begin:], DECOMPRESSED_BYTES_MAX), 0, header)
    except BrokerError as error:
        raise _damaged(header, error) from None


def _damaged(header: BatchHeader, why: object) -> CorruptBatch:
    return CorruptBatch(
        f"the batch of offsets {header.base_offset} to {header.last_offset} cannot be read: {why}"
    )


def _assemble(pieces: Sequence[Piece], wanted: WantedRows, loops: ColumnLoops) -> list[Any]:
    """The wanted rows of these pieces as one Arrow batch, or none."""
    data = pieces[0].data if len(pieces) == 1 else b"".join(piece.data for piece in pieces)
    count = sum(piece.header.count for piece in pieces)
    if min(piece.header.count for piece in pieces) < 0 or count * 7 > len(data):
        raise CorruptBatch(f"{count} records cannot fit into {len(data)} bytes")
    spans = np.empty((8, count), np.int64)
    kinds = np.empty(count, np.int32)
    row = start = 0
    for piece in pieces:
        header = piece.header
        end_row = row + header.count
        try:
            loops.walk(data, start + piece.begin, start + len(piece.data), header.count, spans, row)
        except CorruptBatch as error:
            raise _damaged(header, error) from None
        _check_offsets(spans[0, row:end_row], header)
        spans[0, row:end_row] += header.base_offset
        if header.has_append_time:
            spans[1, row:end_row] = header.max_timestamp_ms
        else:
            spans[1, row:end_row] += header.base_timestamp_ms
        kinds[row:end_row] = header.has_append_time
        row, start = end_row, start + len(piece.data)
    return _build(data, _cut(spans, kinds, wanted), wanted, loops)


def _check_offsets(deltas: Any, header: BatchHeader) -> None:
    if not 0 <= deltas[0] <= deltas[-1] <= header.last_offset_delta:
        raise _damaged(header, "offsets of its records are out of range")
    if deltas[-1] - deltas[0] != len(deltas) - 1 and not (deltas[1:] > deltas[:-1]).all():
        raise _damaged(header, "offsets of its records do not ascend")


def _cut(spans: Any, kinds: Any, wanted: WantedRows) -> tuple[Any, Any]:
    """Remove the rows outside the wanted range: a fetch returns complete batches."""
    offsets = spans[0]
    if len(offsets) > 1 and not (offsets[1:] > offsets[:-1]).all():
        raise CorruptBatch(f"the batches from offset {offsets[0]} to {offsets[-1]} are not in order")
    first, end = np.searchsorted(offsets, (wanted.start_offset, wanted.end_offset))
    if first == 0 and end == len(offsets):
        return spans, kinds
    return np.ascontiguousarray(spans[:, first:end]), kinds[first:end]


def _build(data: bytes, cut: tuple[Any, Any], wanted: WantedRows, loops: ColumnLoops) -> list[Any]:
    spans, kinds = cut
    count = len(kinds)
    if not count:
        return []
    times_us = np.clip(spans[1], -TIME_MS_MAX, TIME_MS_MAX) * 1000
    columns = [
        loops.gather(data, spans[2], spans[3]),
        loops.gather(data, spans[4], spans[5]),
        pa.repeat(pa.scalar(wanted.topic), count),
        pa.repeat(pa.scalar(wanted.partition, pa.int32()), count),
        pa.array(spans[0]),
        pa.array(times_us).cast(SCHEMA.field("timestamp").type),
        pa.array(kinds),
    ]
    if not wanted.with_headers:
        return [pa.RecordBatch.from_arrays(columns, schema=SCHEMA)]
    columns.append(_headers(data, spans[6], spans[7], loops))
    return [pa.RecordBatch.from_arrays(columns, schema=SCHEMA_WITH_HEADERS)]


def _headers(data: bytes, starts: Any, ends: Any, loops: ColumnLoops) -> Any:
    """Lists of (key, value); null for a record without headers."""
    counts, parts = loops.walk_headers(data, starts, ends)
    names = loops.gather(data, parts[0], parts[1])
    try:
        keys = names.cast(pa.string())
    except pa.ArrowInvalid:
        keys = pa.array([name.as_py().decode(errors="replace") for name in names], pa.string())
    entries = pa.StructArray.from_arrays(
        [keys, loops.gather(data, parts[2], parts[3])], fields=list(HEADERS.value_type)
    )
    bounds = np.zeros(len(counts) + 1, np.int32)
    np.cumsum(counts, out=bounds[1:])
    return pa.ListArray.from_arrays(bounds, entries, type=HEADERS, mask=pa.array(counts == 0))
