"""Selects the segments that retention may delete. The log's owner deletes them.

As in Kafka a segment is as old as its newest record, so a timestamp in the future retains the segment until that time
has passed. Records without a timestamp have no age: only the size limit deletes them.
"""

from __future__ import annotations

from penstock.core.log.log import Log
from penstock.core.log.segment import Segment
from penstock.core.model import NO_TIMESTAMP

NO_LIMIT = -1


def expired_count(log: Log, *, now_ms: int, retention_ms: int, retention_bytes: int) -> int:
    """How many of the oldest segments to delete, by age, size or log start. Never the active one."""
    count = 0
    excess_bytes = log.size() - retention_bytes if retention_bytes > NO_LIMIT else NO_LIMIT
    for segment in log.segments[:-1]:
        if segment.next_offset > log.high_watermark:
            break
        if (
            segment.next_offset > log.start_offset
            and excess_bytes < segment.size
            and not _is_old(segment, now_ms, retention_ms)
        ):
            break
        excess_bytes -= segment.size
        count += 1
    return count


def active_is_expired(log: Log, *, now_ms: int, retention_ms: int, retention_bytes: int) -> bool:
    """Whether to roll the active segment so that it can be deleted: it is too old, and so are all others."""
    if not log.segments or log.segments[-1].size == 0 or log.end_offset > log.high_watermark:
        return False
    others = expired_count(log, now_ms=now_ms, retention_ms=retention_ms, retention_bytes=retention_bytes)
    if others < len(log.segments) - 1:
        return False
    return log.start_offset >= log.end_offset or _is_old(log.segments[-1], now_ms, retention_ms)


def _is_old(segment: Segment, now_ms: int, retention_ms: int) -> bool:
    if retention_ms == NO_LIMIT:
        return False
    newest_ms = segment.newest_time_ms()
    return segment.size == 0 or (newest_ms != NO_TIMESTAMP and now_ms - newest_ms > retention_ms)
