"""Records of a log by their time. Never unfolds a large batch on the loop: it returns what a worker has to do."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from penstock.core.limits import LOOKUP_UNFOLDED_BYTES_MAX
from penstock.core.log.log import Log, Mark
from penstock.core.records.compression import stored_unfolded_bytes_max
from penstock.core.records.lookup import first_at_or_after


class TimedOffset(NamedTuple):
    """A record found by its time."""

    offset: int
    timestamp_ms: int
    leader_epoch: int
    search: Callable[[], TimedOffset] | None = None
    """Finds the exact record, in a worker. Until then this is its batch: a reader starts early and misses nothing."""


def find_time(log: Log, time_ms: int, limit: Mark, batch_bytes_max: int) -> TimedOffset | None:
    """The first record at or after a time, of those before `limit`."""
    found = log.find_time(time_ms, limit)
    if found is None:
        return None
    header = found.header

    def look(unfolded_bytes_max: int) -> TimedOffset:
        nearest = first_at_or_after(found.raw, header, time_ms, start_offset, unfolded_bytes_max)
        search = None if nearest.is_exact else exact
        return TimedOffset(nearest.offset, nearest.timestamp_ms, header.leader_epoch, search)

    start_offset = log.start_offset
    exact = partial(look, stored_unfolded_bytes_max(max(batch_bytes_max, header.size)))
    return look(LOOKUP_UNFOLDED_BYTES_MAX)
