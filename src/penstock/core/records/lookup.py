"""Finding one record inside one batch by its time."""

from __future__ import annotations

from penstock.core.records.batch import BatchHeader, Buffer
from penstock.core.records.whole import open_batch


def first_at_or_after(batch: Buffer, header: BatchHeader, time_ms: int, start_offset: int) -> tuple[int, int]:
    """(offset, timestamp) of the first record at or after `time_ms` and not before `start_offset`."""
    if not header.has_append_time and not header.is_control:
        for record in open_batch(batch, header):
            if record.timestamp_ms >= time_ms and record.offset >= start_offset:
                return record.offset, record.timestamp_ms
    return max(header.base_offset, start_offset), header.max_timestamp_ms
