"""Records one by one out of partitions, for doors whose clients read messages and not batches. Never speaks a protocol.

Reads at once what is there, or waits for it. Markers of transactions are never shown, nor, to readers of committed
records, what was aborted.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from penstock.core.errors import BrokerError
from penstock.core.limits import FETCH_BYTES_MAX
from penstock.core.model import Isolation, Record
from penstock.core.records.portion import payload_bytes
from penstock.node.broker import Broker
from penstock.node.committed_records import end_of as end_of
from penstock.node.committed_records import read_records
from penstock.node.partition import Partition
from penstock.node.payloads import Opened
from penstock.node.waiting import Client, Waits


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
    is_opening: bool = False
    """A batch is being opened in a worker; the reader is called when it can go on."""


Answered = Callable[[Run | BrokerError], None]


class Reader:
    """Reads for the clients of one door."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._waits = Waits()

    def read(self, client: Client, wanted: Wanted, answered: Answered) -> None:
        """Answer at once if there is anything, an error, or no patience; else when there is, or with nothing.

        A client that goes while it waits is not answered.
        """

        def go_on() -> None:
            if run.is_opening and not run.records:
                self.read(client, wanted._replace(offset=run.next_offset), answered)

        try:
            partition = self._broker.partition(wanted.topic, wanted.partition)
            run = self.read_now(partition, wanted, go_on)
        except BrokerError as error:
            answered(error)
            return
        if self._is_answer(client, wanted, run, answered):
            return

        def look() -> bool:
            nonlocal run
            try:
                run = self.read_now(partition, wanted._replace(offset=run.next_offset), go_on)
            except BrokerError as error:
                answered(error)
                return True
            return self._is_answer(client, wanted, run, answered)

        self._waits.start(client, [partition], wanted.wait_ms, look, lambda: answered(run))

    def _is_answer(self, client: Client, wanted: Wanted, run: Run, answered: Answered) -> bool:
        """Whether this need not be waited for: it answers, or the read goes on by itself."""
        is_found = bool(run.records)
        if not is_found and run.is_opening:
            return True
        if not is_found and run.next_offset < run.end_offset and run.next_offset > wanted.offset:
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

    def read_now(self, partition: Partition, wanted: Wanted, when_opened: Opened = lambda: None) -> Run:
        """What there is, without waiting. Nothing found with `next_offset` before the end: there is more to look at,
        or, if a batch is being opened, `when_opened` is called when there is."""
        found = read_records(
            partition,
            wanted.offset,
            wanted.isolation,
            when_opened,
            records_max=wanted.records_max,
            bytes_max=wanted.bytes_max,
        )
        partition.traffic.out_bytes += sum(map(payload_bytes, found.records))
        run = _run(partition, found.records, found.next_offset, wanted.isolation)
        return run._replace(is_opening=True) if found.is_opening else run


def _run(partition: Partition, records: list[Record], next_offset: int, isolation: Isolation) -> Run:
    return Run(records, next_offset, partition.start_offset, end_of(partition, isolation))


def offset_at(partition: Partition, time_ms: int, isolation: Isolation) -> int:
    """The first record at or after a time; the end when there is none."""
    found = partition.find_time(time_ms, isolation)
    return end_of(partition, isolation) if found is None else found.offset
