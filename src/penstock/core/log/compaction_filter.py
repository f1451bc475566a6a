"""Compaction of one batch: selects the records to retain and rebuilds the batch. No I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, auto
from operator import ge

from penstock.core.errors import CorruptBatch, TooLarge, UnsupportedCompression
from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.log.compaction import Plan
from penstock.core.log.segment import StoredBatch
from penstock.core.model import NO_TIMESTAMP
from penstock.core.records import varint
from penstock.core.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON,
    PREFIX_BYTES,
    BatchHeader,
    encode_header,
    stamp_checksum,
)
from penstock.core.records.compression import compress, decompress, stored_decompressed_bytes_max
from penstock.core.records.payload import RecordSpan, iterate_keys

RECORDS_MAX = 250_000
"""Maximum records of a batch that compaction opens; a larger batch stays unchanged."""


def open_spans(found: StoredBatch) -> tuple[bytes, list[RecordSpan]] | str:
    """The decompressed payload and the span of each record, or the reason why the batch cannot be compacted."""
    header = found.header
    if header.count > RECORDS_MAX:
        return f"it has {header.count} records, more than the limit of {RECORDS_MAX}"
    try:
        bytes_max = stored_decompressed_bytes_max(header.size)
        payload = decompress(header.codec, found.raw[BATCH_HEADER_BYTES : header.size], bytes_max)
        spans = list(iterate_keys(payload, header.count))
    except (CorruptBatch, TooLarge, UnsupportedCompression) as error:
        return str(error)
    deltas = [span.offset_delta for span in spans]
    if deltas and (deltas[-1] > header.last_offset_delta or any(map(ge, deltas, deltas[1:]))):
        # A wrong offset would shadow later records of the same key.
        return "the offsets of its records are not in order"
    return payload, spans


class BatchOutcome(Enum):
    """What happens to a batch."""

    UNCHANGED = auto()
    CHANGED = auto()
    DROPPED = auto()


class Filter:
    """Decides which records of one compaction round are retained."""

    def __init__(
        self, latest: Mapping[bytes, int], map_end: int, plan: Plan, digest_of: Callable[[bytes], bytes]
    ) -> None:
        self._latest = latest
        self._map_end = map_end
        self._plan = plan
        self._digest_of = digest_of
        self.dropped = 0
        self.keyless_dropped = 0

    def filter(self, found: StoredBatch) -> tuple[BatchOutcome, memoryview | bytearray]:
        """The outcome and the batch's bytes: unchanged, rebuilt, or to be dropped."""
        header = found.header
        if header.is_control or header.next_offset > self._map_end:
            return BatchOutcome.UNCHANGED, found.raw
        if header.count == 0:
            return (
                BatchOutcome.UNCHANGED if self._is_last_of_producer(header) else BatchOutcome.DROPPED
            ), found.raw
        opened = open_spans(found)
        if isinstance(opened, str):
            return BatchOutcome.UNCHANGED, found.raw
        payload, spans = opened
        retained = [span for span in spans if self._stays(header, span)]
        self.dropped += len(spans) - len(retained)
        if not retained:
            if self._is_last_of_producer(header):
                return BatchOutcome.CHANGED, _emptied(header)
            return BatchOutcome.DROPPED, found.raw
        needs_horizon = not header.attributes & DELETE_HORIZON and any(
            span.value_is_null for span in retained
        )
        if len(retained) == len(spans) and not needs_horizon:
            return BatchOutcome.UNCHANGED, found.raw
        horizon_ms = self._plan.now_ms + self._plan.delete_retention_ms if needs_horizon else None
        return BatchOutcome.CHANGED, _rebuilt(header, payload, retained, horizon_ms)

    def _stays(self, header: BatchHeader, span: RecordSpan) -> bool:
        if span.key is None:
            self.keyless_dropped += 1
            return False
        offset = header.base_offset + span.offset_delta
        if offset < self._plan.start_offset or offset < self._latest.get(self._digest_of(span.key), -1):
            return False
        if not span.value_is_null or not header.attributes & DELETE_HORIZON:
            return True
        return self._plan.now_ms < header.base_timestamp_ms

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        return (
            header.producer_id >= 0
            and self._plan.last_of_producers.get(header.producer_id) == header.last_offset
        )


def _emptied(header: BatchHeader) -> bytearray:
    """The header alone, which preserves the offsets and sequence of a producer's last batch."""
    changed = header._replace(
        length=BATCH_HEADER_BYTES - PREFIX_BYTES,
        count=0,
        attributes=header.attributes & ~(CODEC_MASK | DELETE_HORIZON),
    )
    batch = bytearray(encode_header(changed))
    stamp_checksum(batch)
    return batch


def _rebuilt(
    header: BatchHeader, payload: bytes, retained: list[RecordSpan], horizon_ms: int | None
) -> bytearray:
    """The batch with fewer records or a delete horizon; all other header fields are preserved."""
    max_timestamp_ms = header.max_timestamp_ms
    if not header.has_append_time:
        max_timestamp_ms = max(
            NO_TIMESTAMP, *(header.base_timestamp_ms + span.timestamp_delta for span in retained)
        )
    changed = header._replace(count=len(retained), max_timestamp_ms=max_timestamp_ms)
    if horizon_ms is None:
        records = b"".join([payload[span.start : span.end] for span in retained])
    else:
        shift_ms = header.base_timestamp_ms - horizon_ms
        records = b"".join([_moved(payload, span, shift_ms) for span in retained])
        changed = changed._replace(
            attributes=header.attributes | DELETE_HORIZON, base_timestamp_ms=horizon_ms
        )
    records = compress(header.codec, records)
    changed = changed._replace(length=BATCH_HEADER_BYTES - PREFIX_BYTES + len(records))
    batch = bytearray(encode_header(changed)) + records
    stamp_checksum(batch)
    return batch


def _moved(payload: bytes, span: RecordSpan, shift_ms: int) -> bytes:
    """One record with its timestamp delta shifted to another base."""
    _, position = varint.decode(payload, span.start)
    attributes = payload[position : position + 1]
    _, rest = varint.decode(payload, position + 1, varint.INT64_BYTES_MAX)
    body = attributes + varint.encode(span.timestamp_delta + shift_ms) + payload[rest : span.end]
    return varint.encode(len(body)) + body
