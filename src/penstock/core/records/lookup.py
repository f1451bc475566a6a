"""Finding one record inside one batch by its time. Never unfolds more than a fixed budget: it runs on the loop."""

from __future__ import annotations

from penstock.core.errors import BrokerError
from penstock.core.limits import BATCH_HEADER_BYTES, LOOKUP_UNFOLDED_BYTES_MAX
from penstock.core.records.batch import BatchHeader, Buffer
from penstock.core.records.compression import decompress
from penstock.core.records.loops import load_loops
from penstock.core.records.walk_findings import Spot

_seek = load_loops("walk").seek
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


def first_at_or_after(batch: Buffer, header: BatchHeader, time_ms: int, start_offset: int) -> tuple[int, int]:
    """(offset, timestamp) of the first record at or after `time_ms` and not before `start_offset`.

    A batch that cannot be opened, or not within the budget, is found as a whole: a reader then starts somewhat early
    and misses nothing.
    """
    if not header.has_append_time and not header.is_control:
        spot = _spot(batch, header, time_ms, start_offset)
        if spot is not None and spot.is_found and spot.offset_delta <= header.last_offset_delta:
            return header.base_offset + spot.offset_delta, header.base_timestamp_ms + spot.time_delta
    return max(header.base_offset, start_offset), header.max_timestamp_ms


def _spot(batch: Buffer, header: BatchHeader, time_ms: int, start_offset: int) -> Spot | None:
    content, begin = memoryview(batch)[: header.size], BATCH_HEADER_BYTES
    if header.codec:
        try:
            content = memoryview(decompress(header.codec, content[begin:], LOOKUP_UNFOLDED_BYTES_MAX))
        except BrokerError:
            return None
        begin = 0
    time_delta = min(max(time_ms - header.base_timestamp_ms, _INT64_MIN), _INT64_MAX)
    spot: Spot = _seek(content, begin, header.count, max(start_offset - header.base_offset, 0), time_delta)
    return spot
