"""Reads the records of a partition in bounded steps. Does not wait, and skips damaged batches.

A batch that takes long to decompress is opened in a worker; the read ends before it, and the reader is called once it
can continue. A batch that cannot be opened is reported once and skipped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import NamedTuple

from penstock.core.errors import CorruptBatch
from penstock.core.log.segment import Slice
from penstock.core.model import Isolation, Record
from penstock.core.records.batch import BatchHeader, decode_header
from penstock.node.replicas.partition import Partition
from penstock.node.replicas.record_read import RecordRead
from penstock.node.runtime.payloads import Opened

STEP_BYTES = 1 << 17
"""Bytes of the log read at a time: the reader may want only the first of many records."""

SCAN_BYTES_MAX = 8 << 20
"""Bytes of the log scanned in one loop iteration if no record in them is visible to the reader."""

RECORDS_MAX = 1_000
"""Records decoded in one loop iteration, unless the reader wants fewer."""


class FoundRecords(NamedTuple):
    """Result of a read; the next one starts at `next_offset`. `is_opening`: the reader is called when it can
    continue."""

    records: list[Record]
    next_offset: int
    is_opening: bool


class _LogRead(RecordRead):
    """One read of a partition of this node."""

    def __init__(
        self, partition: Partition, offset: int, records_max: int, bytes_max: int, when_opened: Opened
    ) -> None:
        super().__init__(partition, offset, records_max, bytes_max, when_opened)
        self.partition = partition

    def take(self, slice_: Slice, isolation: Isolation) -> None:
        """Take the wanted records from a run of batches."""
        content = memoryview(slice_.read())
        position = 0
        while position < len(content) and self.wants_more:
            header = decode_header(content, position)
            if header.is_control or (
                isolation is Isolation.READ_COMMITTED and is_aborted(self.partition, header)
            ):
                self.pass_over(header)
            else:
                raw = content[position : position + header.size]
                self.take_batch((slice_.file, slice_.position + position), raw, header)
            position += header.size


def read_records(
    partition: Partition,
    offset: int,
    isolation: Isolation,
    when_opened: Opened,
    *,
    records_max: int = RECORDS_MAX,
    bytes_max: int = STEP_BYTES,
) -> FoundRecords:
    """Visible records from an offset on; the first one even if it is larger than `bytes_max`."""
    read = _LogRead(partition, offset, records_max, bytes_max, when_opened)
    scanned_bytes = 0
    while read.wants_more and scanned_bytes < SCAN_BYTES_MAX:
        before = read.offset
        scanned_bytes += _step(read, isolation)
        if read.offset == before:
            break
    return FoundRecords(read.records, read.offset, read.is_opening)


def _step(read: _LogRead, isolation: Isolation) -> int:
    """Read one run of batches, or skip damage; returns the number of bytes scanned."""
    partition, offset = read.partition, read.offset
    for step_bytes in (min(read.left_bytes, STEP_BYTES), 1):
        try:
            slice_ = partition.read(offset, step_bytes, isolation)
        except CorruptBatch as error:
            failure = error  # intact batches may precede it: read those one by one
            continue
        if slice_ is None:
            return 0
        read.take(slice_, isolation)
        return slice_.length
    next_offset = partition.log.after_damage(offset)
    read.offset = min(next_offset, max(offset, end_of(partition, isolation)))
    partition.damage.skip(offset, next_offset, failure)
    return STEP_BYTES


def read_committed(
    partition: Partition,
    offset: int,
    bytes_max: int,
    when_opened: Opened = lambda: None,
    records_max: int = RECORDS_MAX,
) -> FoundRecords:
    """Records from an offset on, without those of aborted transactions."""
    return read_records(
        partition,
        offset,
        Isolation.READ_COMMITTED,
        when_opened,
        records_max=records_max,
        bytes_max=bytes_max,
    )


async def every_committed(partition: Partition, offset: int, bytes_max: int) -> AsyncIterator[Record]:
    """Every committed record from an offset to the current end; yields to other tasks between steps."""
    while True:
        found = await read_opened(partition, max(offset, partition.start_offset), bytes_max)
        for record in found.records:
            yield record
        if found.next_offset <= offset:
            return
        offset = found.next_offset
        await asyncio.sleep(0)


async def read_opened(
    partition: Partition, offset: int, bytes_max: int, records_max: int = RECORDS_MAX
) -> FoundRecords:
    """Some committed records from an offset on; waits if a batch must be opened in a worker."""
    while True:
        opened = asyncio.Event()
        found = read_committed(partition, offset, bytes_max, opened.set, records_max)
        if found.records or not found.is_opening:
            return found
        offset = found.next_offset
        await opened.wait()


def end_of(partition: Partition, isolation: Isolation) -> int:
    """The offset after the last record visible at this isolation level."""
    if isolation is Isolation.READ_COMMITTED:
        return partition.last_stable_offset
    return partition.high_watermark


def is_aborted(partition: Partition, header: BatchHeader) -> bool:
    """Whether this batch belongs to an aborted transaction."""
    return header.is_transactional and any(
        one.producer_id == header.producer_id and one.first_offset <= header.base_offset <= one.last_offset
        for one in partition.aborted_between(header.base_offset, header.next_offset)
    )
