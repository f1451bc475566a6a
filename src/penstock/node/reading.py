"""Records one by one out of partitions, for doors whose clients read messages and not batches. Never speaks a protocol.

Reads at once what is there, or waits for it. Markers of transactions are never shown, nor, to readers of committed
records, what was aborted.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import NamedTuple

from penstock.core.errors import BrokerError
from penstock.core.limits import FETCH_BYTES_MAX
from penstock.core.log.segment import Slice
from penstock.core.model import Isolation, Record
from penstock.core.ports import File
from penstock.core.records.batch import BatchHeader, decode_header
from penstock.core.records.whole import open_batch
from penstock.node.broker import Broker
from penstock.node.committed_records import is_aborted
from penstock.node.partition import Partition
from penstock.node.waiting import Client, Waits

STEP_BYTES = 1 << 17
"""How much of the log is read at a time: what is wanted may be the first record of many."""

SCAN_BYTES_MAX = 8 << 20
"""How much of the log is looked through in one turn of the loop where nothing in it may be shown."""

MEMO_BATCHES_MAX = 16
MEMO_BATCH_BYTES_MAX = 1 << 18
"""Opened batches that are kept a while: whoever reads them record by record does not open them each time."""


class Wanted(NamedTuple):
    """What a client wants to read. Time and size are limits, not demands; one record always fits."""

    topic: str
    partition: int
    offset: int
    records_max: int = 1
    bytes_max: int = FETCH_BYTES_MAX
    wait_ms: int = 0
    isolation: Isolation = Isolation.READ_COMMITTED


class Run(NamedTuple):
    """What was read. The next read starts at `next_offset`; readers may see everything before `end_offset`."""

    records: list[Record]
    next_offset: int
    start_offset: int
    end_offset: int


Answered = Callable[[Run | BrokerError], None]


class Reader:
    """Reads for the clients of one door."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waits = Waits()
        self._memo: OrderedDict[tuple[File, int], list[Record]] = OrderedDict()

    def read(self, client: Client, wanted: Wanted, answered: Answered) -> None:
        """Answer at once if there is anything, an error, or no patience; else when there is, or with nothing.

        A client that goes while it waits is not answered.
        """
        try:
            partition = self._broker.partition(wanted.topic, wanted.partition)
            run = self.read_now(partition, wanted)
        except BrokerError as error:
            answered(error)
            return
        if self._is_answer(client, wanted, run, answered):
            return

        def look() -> bool:
            nonlocal run
            try:
                run = self.read_now(partition, wanted._replace(offset=run.next_offset))
            except BrokerError as error:
                answered(error)
                return True
            return self._is_answer(client, wanted, run, answered)

        self._waits.start(client, [partition], wanted.wait_ms, look, lambda: answered(run))

    def _is_answer(self, client: Client, wanted: Wanted, run: Run, answered: Answered) -> bool:
        """Whether this need not be waited for: it answers, or there is more to look through in the next turn."""
        is_found = bool(run.records)
        if not is_found and run.next_offset < run.end_offset:
            onward = wanted._replace(offset=run.next_offset)
            asyncio.get_running_loop().call_soon(self.read, client, onward, answered)
            return True
        if is_found or wanted.wait_ms <= 0:
            answered(run)
            return True
        return False

    def release_waiting(self) -> None:
        """The doors are closing: answer with what there is."""
        self._waits.release()

    def read_now(self, partition: Partition, wanted: Wanted) -> Run:
        """What there is, without waiting. Nothing found with `next_offset` before the end: there is more to look at."""
        records: list[Record] = []
        scanned_bytes = 0
        offset, left_bytes = wanted.offset, max(wanted.bytes_max, 1)
        traffic = partition.traffic
        while len(records) < wanted.records_max and left_bytes > 0 and scanned_bytes < SCAN_BYTES_MAX:
            slice_ = partition.read(offset, min(left_bytes, STEP_BYTES), wanted.isolation)
            if slice_ is None:
                break
            scanned_bytes += slice_.length
            before = offset
            for batch in self._batches(partition, slice_, offset, wanted.isolation):
                for record in batch.records:
                    if record.offset < offset:
                        continue
                    size = size_of(record)
                    if len(records) >= wanted.records_max or (records and size > left_bytes):
                        return _run(partition, records, offset, wanted.isolation)
                    records.append(record)
                    left_bytes -= size
                    traffic.out_bytes += size
                    offset = record.offset + 1
                offset = max(offset, batch.next_offset)
            assert offset > before, "a read goes forward"
        return _run(partition, records, offset, wanted.isolation)

    def _batches(
        self, partition: Partition, slice_: Slice, offset: int, isolation: Isolation
    ) -> Iterator[_Batch]:
        """The batches of a run, opened one by one as they are asked for."""
        content = memoryview(slice_.read())
        position = 0
        while position < len(content):
            header = decode_header(content, position)
            raw = content[position : position + header.size]
            if header.is_control or (isolation is Isolation.READ_COMMITTED and is_aborted(partition, header)):
                yield _Batch([], header.next_offset)
            else:
                yield _Batch(
                    self._open(slice_.file, slice_.position + position, raw, header), header.next_offset
                )
            position += header.size

    def _open(self, file: File, position: int, raw: memoryview, header: BatchHeader) -> list[Record]:
        key = (file, position)
        records = self._memo.get(key)
        if records is None:
            records = open_batch(raw, header)
            if header.count > 1 and header.size <= MEMO_BATCH_BYTES_MAX and not header.codec:
                self._memo[key] = records
                if len(self._memo) > MEMO_BATCHES_MAX:
                    self._memo.popitem(last=False)
        return records


class _Batch(NamedTuple):
    """The records of one batch that may be shown, and where the next one starts."""

    records: list[Record]
    next_offset: int


def size_of(record: Record) -> int:
    """Bytes of what a client put into a record."""
    size = len(record.key or b"") + len(record.value or b"")
    for name, content in record.headers:
        size += len(name) + len(content or b"")
    return size


def _run(partition: Partition, records: list[Record], next_offset: int, isolation: Isolation) -> Run:
    return Run(records, next_offset, partition.start_offset, end_of(partition, isolation))


def end_of(partition: Partition, isolation: Isolation) -> int:
    """The offset behind the last record that such a reader may see."""
    if isolation is Isolation.READ_COMMITTED:
        return partition.last_stable_offset
    return partition.high_watermark


def offset_at(partition: Partition, time_ms: int, isolation: Isolation) -> int:
    """The first record at or after a time; the end when there is none."""
    found = partition.find_time(time_ms, isolation)
    return end_of(partition, isolation) if found is None else found.offset
