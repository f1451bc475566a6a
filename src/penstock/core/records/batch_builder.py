"""Builds record batches v2 from rows of Arrow arrays, one batch per partition at a time. Never sends.

Rows are three columns of bytes (key, value, encoded headers) and one of timestamps. The caller passes the loops over
rows: `batch_builder_compiled` if it was built, else `batch_builder_loops`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.model import NO_EPOCH
from penstock.core.records.batch import (
    LOG_APPEND_TIME,
    MAGIC,
    PREFIX_BYTES,
    TRANSACTIONAL,
    BatchHeader,
    Buffer,
    encode_header,
    stamp_checksum,
)
from penstock.core.records.compression import compress
from penstock.core.records.payload import encode_headers

NULL = -1
"""The length of a null value."""

_NO_HEADERS = b"\0"


class Blobs(NamedTuple):
    """Bytes by row: start and length of each in `data`; a length of NULL is a null value."""

    data: Any
    starts: Any
    lengths: Any


class Rows(NamedTuple):
    """The columns of each record; timestamps in milliseconds."""

    keys: Blobs
    values: Blobs
    headers: Blobs
    times_ms: Any


class ProducerIdentity(NamedTuple):
    """Producer id and epoch stamped on batches."""

    producer_id: int
    producer_epoch: int
    is_transactional: bool


def blobs_of(array: Any) -> Blobs:
    """A binary or string array as Blobs, without copying the bytes."""
    count = len(array)
    _, offsets_at, data_at = array.buffers()
    lengths = np.full(count, NULL, np.int64)
    if offsets_at is None or array.null_count == count:
        return Blobs(b"\0", np.zeros(count, np.int64), lengths)
    width: Any = np.int64 if _is_large(array.type) else np.int32
    offsets = np.frombuffer(offsets_at, width)[array.offset : array.offset + count + 1].astype(np.int64)
    np.subtract(offsets[1:], offsets[:-1], out=lengths)
    if array.null_count:
        lengths[np.asarray(array.is_null())] = NULL
    data = memoryview(data_at).cast("B") if data_at is not None and data_at.size else b"\0"
    return Blobs(data, offsets[:-1], lengths)


def absent(count: int) -> Blobs:
    """A column of nulls."""
    return Blobs(b"\0", np.zeros(count, np.int64), np.full(count, NULL, np.int64))


def header_blobs(array: Any | None, count: int) -> Blobs:
    """Lists of (key, value) encoded as record headers, prefixed with their count."""
    if array is None or array.null_count == count:
        return Blobs(_NO_HEADERS, np.zeros(count, np.int64), np.ones(count, np.int64))
    encoded = [
        encode_headers([(one["key"], one["value"]) for one in row]) if row else _NO_HEADERS
        for row in array.to_pylist()
    ]
    lengths = np.fromiter(map(len, encoded), np.int64, count)
    starts = np.zeros(count, np.int64)
    np.cumsum(lengths[:-1], out=starts[1:])
    return Blobs(b"".join(encoded), starts, lengths)


def _is_large(kind: Any) -> bool:
    return bool(pa.types.is_large_binary(kind) or pa.types.is_large_string(kind))


class BatchBuilderLoops(Protocol):
    """The loops over rows: `batch_builder_compiled` or `batch_builder_loops`."""

    def encode_rows(
        self, rows: Rows, order: Any, begin: int, first_delta: int, base_ms: int, room: int, takes_one: bool
    ) -> tuple[bytes, int]:
        """The rows that fit, encoded as records, and the next index."""
        ...

    def hash_rows(self, data: Any, starts: Any, lengths: Any) -> Any:
        """Kafka's murmur2 hash of each row."""
        ...


class BatchBuilder:
    """Collects the records of one batch until it is sealed. `payload_bytes` is their uncompressed size."""

    __slots__ = ("_base_ms", "_chunks", "_last_ms", "_loops", "count", "payload_bytes")

    def __init__(self, loops: BatchBuilderLoops) -> None:
        self._loops = loops
        self._chunks: list[bytes] = []
        self._base_ms = self._last_ms = 0
        self.count = 0
        self.payload_bytes = 0

    def take(self, rows: Rows, order: Any, begin: int, bytes_max: int) -> int:
        """Add rows `order[begin:]` while the batch stays within `bytes_max`; an empty batch takes at least one.

        Returns the next index in `order`.
        """
        if begin == len(order):
            return begin
        if not self.count:
            self._base_ms = self._last_ms = int(rows.times_ms[order[begin]])
        room = bytes_max - BATCH_HEADER_BYTES - self.payload_bytes
        chunk, end = self._loops.encode_rows(
            rows, order, begin, self.count, self._base_ms, room, not self.count
        )
        if end > begin:
            self._chunks.append(chunk)
            self.payload_bytes += len(chunk)
            self.count += end - begin
            self._last_ms = max(self._last_ms, int(rows.times_ms[order[begin:end]].max()))
        return end

    def seal(self, by: ProducerIdentity, sequence: int, codec: int) -> bytearray:
        """The batch as a producer sends it. Resets the builder."""
        assert self.count, "a batch has at least one record"
        payload = compress(codec, b"".join(self._chunks))
        header = BatchHeader(
            base_offset=0,
            length=BATCH_HEADER_BYTES - PREFIX_BYTES + len(payload),
            leader_epoch=NO_EPOCH,
            magic=MAGIC,
            crc=0,
            attributes=codec | (TRANSACTIONAL if by.is_transactional else 0),
            last_offset_delta=self.count - 1,
            base_timestamp_ms=self._base_ms,
            max_timestamp_ms=self._last_ms,
            producer_id=by.producer_id,
            producer_epoch=by.producer_epoch,
            base_sequence=sequence,
            count=self.count,
        )
        self._chunks, self.count, self.payload_bytes = [], 0, 0
        return _whole(header, payload)


def resealed(batch: Buffer, header: BatchHeader, by: ProducerIdentity, sequence: int) -> bytearray:
    """The same records under another producer identity, as they were before a log stamped them."""
    changed = header._replace(
        base_offset=0,
        leader_epoch=NO_EPOCH,
        attributes=header.attributes & ~(LOG_APPEND_TIME | TRANSACTIONAL)
        | (TRANSACTIONAL if by.is_transactional else 0),
        producer_id=by.producer_id,
        producer_epoch=by.producer_epoch,
        base_sequence=sequence,
    )
    return _whole(changed, batch[BATCH_HEADER_BYTES : header.size])


def _whole(header: BatchHeader, payload: Buffer) -> bytearray:
    batch = bytearray(encode_header(header))
    batch += payload
    stamp_checksum(batch)
    return batch
