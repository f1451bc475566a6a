"""Reads single records, for doors whose clients read messages instead of batches. Speaks no protocol.

Reads what is available, or waits for it. Transaction markers are never returned, nor are aborted records at
read_committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from penstock.core.access import Operation
from penstock.core.errors import BrokerError
from penstock.core.limits import FETCH_BYTES_MAX
from penstock.core.model import Isolation, Record
from penstock.core.records.portion import payload_bytes
from penstock.core.session import Session
from penstock.node.replicas.committed_records import end_of, read_records
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.payloads import Opened
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.positions import Edge, find_in
from penstock.node.waist.routes import Routes
from penstock.node.waist.waits import Client, Waits


class Wanted(NamedTuple):
    """A read request. Time and size are limits; one record always fits."""

    topic: str
    partition: int
    offset: int
    records_max: int = 1
    bytes_max: int = FETCH_BYTES_MAX
    wait_ms: int = 0
    isolation: Isolation = Isolation.READ_COMMITTED


class Run(NamedTuple):
    """The result of a read. The next read starts at `next_offset`; records before `end_offset` are visible."""

    records: list[Record]
    next_offset: int
    start_offset: int
    end_offset: int
    is_opening: bool = False
    """A batch is being decompressed in a worker; the reader is called when it can continue."""


Answered = Callable[[Run | BrokerError], None]


class PartitionSource:
    """One partition that a reader follows."""

    __slots__ = ("_partition", "index")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.index = partition.index

    @property
    def start_offset(self) -> int:
        return self._partition.start_offset

    def start(self, when: Edge | int, isolation: Isolation) -> int:
        """The offset at an edge, or of the first record at or after a timestamp; the end if there is none."""
        return start_in(self._partition, when, isolation)

    def check(self, offset: int, isolation: Isolation) -> None:
        """Raise OffsetOutOfRange unless a reader can start there."""
        self._partition.read(offset, 1, isolation)

    def read(self, wanted: Wanted, when_opened: Opened) -> Run:
        """Read without waiting; see `Reader.read_now`."""
        return read_now(self._partition, wanted, when_opened)

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call back when there may be more to read."""
        self._partition.add_listener(listener)

    def remove_listener(self, listener: Callable[[], None]) -> None:
        self._partition.remove_listener(listener)


class Reader:
    """Reads for the clients of one door."""

    def __init__(self, authorization: Authorization, routes: Routes) -> None:
        self._authorization = authorization
        self._routes = routes
        self._waits = Waits()

    def _find(self, session: Session, topic: str, index: int) -> Partition:
        if self._authorization.authorizer is not None:
            self._authorization.authorize_topic(session, Operation.READ, topic)
        return self._routes.partition(topic, index)

    def start(self, session: Session, topic: str, index: int, when: Edge | int, isolation: Isolation) -> int:
        """The offset at an edge, or of the first record at or after a timestamp; the end if there is none."""
        return start_in(self._find(session, topic, index), when, isolation)

    def sources(self, session: Session, topic: str, index: int | None) -> list[PartitionSource]:
        """One partition of a topic, or all of them, to follow."""
        self._authorization.authorize_topic(session, Operation.READ, topic)
        if index is not None:
            return [PartitionSource(self._routes.partition(topic, index))]
        return [PartitionSource(partition) for partition in self._routes.partitions_of(topic)]

    def read(self, session: Session, client: Client, wanted: Wanted, answered: Answered) -> None:
        """Answer immediately if there are records, an error, or no wait time; otherwise when records arrive or the
        time is up.

        A client that disconnects while waiting is not answered.
        """

        def go_on() -> None:
            if run.is_opening and not run.records:
                self.read(session, client, wanted._replace(offset=run.next_offset), answered)

        try:
            partition = self._find(session, wanted.topic, wanted.partition)
            run = read_now(partition, wanted, go_on)
        except BrokerError as error:
            answered(error)
            return
        if self._is_answer(session, client, wanted, run, answered):
            return

        def look() -> bool:
            nonlocal run
            try:
                run = read_now(partition, wanted._replace(offset=run.next_offset), go_on)
            except BrokerError as error:
                answered(error)
                return True
            return self._is_answer(session, client, wanted, run, answered)

        self._waits.start(client, [partition], wanted.wait_ms, look, lambda: answered(run))

    def _is_answer(
        self, session: Session, client: Client, wanted: Wanted, run: Run, answered: Answered
    ) -> bool:
        """Whether no wait is needed: the call is answered, or the read continues by itself."""
        is_found = bool(run.records)
        if not is_found and run.is_opening:
            return True
        if not is_found and run.next_offset < run.end_offset and run.next_offset > wanted.offset:
            onward = wanted._replace(offset=run.next_offset)
            asyncio.get_running_loop().call_soon(self.read, session, client, onward, answered)
            return True
        if is_found or wanted.wait_ms <= 0:
            answered(run)
            return True
        return False

    def release_waiting(self) -> None:
        """The doors are closing: answer waiting reads with what is available."""
        self._waits.release()

    def read_now(self, session: Session, wanted: Wanted, when_opened: Opened = lambda: None) -> Run:
        """Read without waiting. An empty result with `next_offset` before the end means that there is more to scan, or
        that a batch is being decompressed; then `when_opened` is called."""
        return read_now(self._find(session, wanted.topic, wanted.partition), wanted, when_opened)


def read_now(partition: Partition, wanted: Wanted, when_opened: Opened) -> Run:
    """Read from a given partition without waiting."""
    found = read_records(
        partition,
        wanted.offset,
        wanted.isolation,
        when_opened,
        records_max=wanted.records_max,
        bytes_max=wanted.bytes_max,
    )
    partition.traffic.out_bytes += sum(map(payload_bytes, found.records))
    end_offset = end_of(partition, wanted.isolation)
    return Run(found.records, found.next_offset, partition.start_offset, end_offset, found.is_opening)


def start_in(partition: Partition, when: Edge | int, isolation: Isolation) -> int:
    """The start offset of a reader in a given partition."""
    found = find_in(partition, when, isolation)
    return end_of(partition, isolation) if found is None else found.offset
