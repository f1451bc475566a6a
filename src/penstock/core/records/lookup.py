"""Looks up one record in one batch by timestamp. Never decompresses more than the caller allows."""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.errors import BrokerError, TooLarge
from penstock.core.limits import BATCH_HEADER_BYTES
from penstock.core.records.batch import BatchHeader, Buffer
from penstock.core.records.compression import decompress
from penstock.core.records.loops import load_loops
from penstock.core.records.walk_findings import Spot

_seek = load_loops("walk").seek
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class Nearest(NamedTuple):
    """A record, or the first of its batch; `is_exact` is False if decompressing more could give a better result."""

    offset: int
    timestamp_ms: int
    is_exact: bool


def first_at_or_after(
    batch: Buffer, header: BatchHeader, time_ms: int, start_offset: int, decompressed_bytes_max: int
) -> Nearest:
    """The first record at or after `time_ms` and not before `start_offset`.

    A batch that cannot be decompressed, or not within the budget, is returned as a whole: a reader then starts
    slightly early and misses nothing.
    """
    is_exact = True
    if not header.has_append_time and not header.is_control:
        try:
            spot = _spot(batch, header, time_ms, start_offset, decompressed_bytes_max)
        except BrokerError as error:
            is_exact = not isinstance(error, TooLarge)
        else:
            if spot.is_found and spot.offset_delta <= header.last_offset_delta:
                found_ms = header.base_timestamp_ms + spot.time_delta
                return Nearest(header.base_offset + spot.offset_delta, found_ms, is_exact)
    return Nearest(max(header.base_offset, start_offset), header.max_timestamp_ms, is_exact)


def _spot(
    batch: Buffer, header: BatchHeader, time_ms: int, start_offset: int, decompressed_bytes_max: int
) -> Spot:
    content, begin = memoryview(batch)[: header.size], BATCH_HEADER_BYTES
    if header.codec:
        content, begin = memoryview(decompress(header.codec, content[begin:], decompressed_bytes_max)), 0
    time_delta = min(max(time_ms - header.base_timestamp_ms, _INT64_MIN), _INT64_MAX)
    spot: Spot = _seek(content, begin, header.count, max(start_offset - header.base_offset, 0), time_delta)
    return spot
