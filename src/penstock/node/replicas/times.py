"""Looks up records by timestamp. Large batches are not decompressed on the loop: it returns a function for a
worker."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from penstock.core.limits import LOOKUP_DECOMPRESSED_BYTES_MAX
from penstock.core.log.log import BatchBoundary, Log
from penstock.core.log.segment import StoredBatch
from penstock.core.records.compression import stored_decompressed_bytes_max
from penstock.core.records.lookup import first_at_or_after


class TimedOffset(NamedTuple):
    """A record found by its timestamp."""

    offset: int
    timestamp_ms: int
    leader_epoch: int
    search: Callable[[], TimedOffset] | None = None
    """Finds the exact record, in a worker. Without it the offset is that of the batch: a reader starts early and
    misses nothing."""


def find_time(log: Log, time_ms: int, limit: BatchBoundary, batch_bytes_max: int) -> TimedOffset | None:
    """The first record at or after a timestamp, before `limit`."""
    found = log.find_time(time_ms, limit)
    if found is None:
        return None
    batch_bytes_max = max(batch_bytes_max, found.header.size)
    search = partial(_look, found, time_ms, log.start_offset, stored_decompressed_bytes_max(batch_bytes_max))
    return _look(found, time_ms, log.start_offset, LOOKUP_DECOMPRESSED_BYTES_MAX, search)


def _look(
    found: StoredBatch,
    time_ms: int,
    start_offset: int,
    decompressed_bytes_max: int,
    search: Callable[[], TimedOffset] | None = None,
) -> TimedOffset:
    # Not a closure over its own search: the reference cycle would hold the batch until the garbage collector runs.
    nearest = first_at_or_after(found.raw, found.header, time_ms, start_offset, decompressed_bytes_max)
    return TimedOffset(
        nearest.offset,
        nearest.timestamp_ms,
        found.header.leader_epoch,
        None if nearest.is_exact else search,
    )
