"""Decodes a bounded portion of one stored batch: from an offset on, up to a number of records and bytes.

A stored batch may predate validation or be damaged: an invalid record ends the portion and is returned as its failure,
never raised.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.errors import BrokerError, CorruptBatch
from penstock.core.model import Record
from penstock.core.records.batch import BatchHeader, Buffer
from penstock.core.records.build import payload_of
from penstock.core.records.loops import load_loops
from penstock.core.records.payload import decode_each
from penstock.core.records.walk_findings import FINE, Checked, Spot

_ANY_TIME = -(2**63)
_seek = load_loops("walk").seek
_check_records = load_loops("walk").check_records


class Portion(NamedTuple):
    """Records, their size, and the next offset."""

    records: list[Record]
    content_bytes: int
    next_offset: int
    failure: CorruptBatch | None = None


def take_records(
    content: Buffer,
    begin: int,
    header: BatchHeader,
    offset_min: int,
    *,
    records_max: int,
    bytes_max: int,
    takes_one: bool,
) -> Portion:
    """Records from `offset_min` on from decompressed bytes; with `takes_one` the first one regardless of its size."""
    records: list[Record] = []
    size = 0
    next_offset = offset_min
    spot: Spot = _seek(content, begin, header.count, offset_min - header.base_offset, _ANY_TIME)
    if spot.is_broken:
        failure = CorruptBatch(f"record {spot.record_index} of {header.count} is not a record")
        return Portion(records, 0, header.next_offset, failure)
    if not spot.is_found:
        return Portion(records, 0, header.next_offset)
    append_ms = header.max_timestamp_ms if header.has_append_time else None
    left = header.count - spot.record_index
    try:
        for record in decode_each(
            bytes(content), spot.position, left, header.base_offset, header.base_timestamp_ms, append_ms
        ):
            if not next_offset <= record.offset <= header.last_offset:
                raise CorruptBatch(f"its offset {record.offset} is not in order")
            record_bytes = payload_bytes(record)
            if len(records) >= records_max or (
                size + record_bytes > bytes_max and (records or not takes_one)
            ):
                return Portion(records, size, next_offset)
            records.append(record)
            size += record_bytes
            next_offset = record.offset + 1
    except CorruptBatch as error:
        failure = CorruptBatch(f"record {header.count - left + len(records)} of {header.count}: {error}")
        return Portion(records, size, header.next_offset, failure)
    return Portion(records, size, header.next_offset)


def take_all(batch: Buffer, header: BatchHeader) -> Portion:
    """All records of a stored batch, up to the first invalid one. Compaction may have left none."""
    if not header.count:
        return Portion([], 0, header.next_offset)
    try:
        content = payload_of(batch, header)
    except BrokerError as error:
        return Portion([], 0, header.next_offset, CorruptBatch(str(error)))
    return take_records(
        content,
        0,
        header,
        header.base_offset,
        records_max=max(header.count, 1),
        bytes_max=len(content),
        takes_one=True,
    )


def find_fault(batch: Buffer, header: BatchHeader) -> CorruptBatch | None:
    """Why readers cannot decode every record of a stored batch, if so. Valid batches are walked, not decoded."""
    if not header.count:
        return None
    try:
        content = payload_of(batch, header)
    except BrokerError as error:
        return CorruptBatch(str(error))
    time_ms = header.base_timestamp_ms
    checked: Checked = _check_records(content, 0, header.count, time_ms, 0, 0, False, False, 0)
    return None if checked.status == FINE else take_all(batch, header).failure


def payload_bytes(record: Record) -> int:
    """The size of a record's key, value and headers."""
    size = len(record.key or b"") + len(record.value or b"")
    for name, content in record.headers:
        size += len(name) + len(content or b"")
    return size
