"""Reads single records, for doors whose clients read messages instead of batches. Speaks no protocol.

Reads what is available, or waits for it, from partitions of this node and of others. Transaction markers are never
returned, nor are aborted records at read_committed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from penstock.core.access import Operation
from penstock.core.errors import BrokerError
from penstock.core.limits import READ_AHEAD_PARTITIONS_MAX
from penstock.core.model import Isolation, TopicPartition
from penstock.core.session import Session
from penstock.node.replicas.committed_records import end_of
from penstock.node.replicas.edges import Edge
from penstock.node.replicas.partition import Partition
from penstock.node.replicas.sources import PartitionSource, read_waiting
from penstock.node.replicas.sources import Run as Run
from penstock.node.replicas.sources import Source as Source
from penstock.node.replicas.sources import Wanted as Wanted
from penstock.node.runtime.tasks import Tasks
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.positions import find_in
from penstock.node.waist.routes import Routes
from penstock.node.waist.waits import Client, Waits

if TYPE_CHECKING:
    from penstock.node.waist.elsewhere import Elsewhere

Answered = Callable[[Run | BrokerError], None]
Started = Callable[[int | BrokerError], None]


class Reader:
    """Reads for the clients of one door."""

    def __init__(self, authorization: Authorization, routes: Routes, elsewhere: Elsewhere | None) -> None:
        self._authorization = authorization
        self._routes = routes
        self._elsewhere = elsewhere
        """None: this broker is alone."""
        self._tasks = Tasks()
        self._waits = Waits()

    # -- sources

    def source(self, session: Session, topic: str, index: int, bytes_max: int = 0) -> Source:
        """One partition to read about so many bytes from. Raises UnknownTopic or TopicForbidden."""
        if self._authorization.authorizer is not None:
            self._authorization.authorize_topic(session, Operation.READ, topic)
        if self._elsewhere is None:
            return PartitionSource(self._routes.partition(topic, index))
        return self._elsewhere.open_source(topic, index, bytes_max)

    def sources(self, session: Session, topic: str, index: int | None) -> Sequence[Source]:
        """One partition of a topic, or all of them, to follow. If a leader is not available, a followed partition on
        another broker pauses until it is."""
        self._authorization.authorize_topic(session, Operation.READ, topic)
        if self._elsewhere is not None:
            return self._elsewhere.open_sources(topic, index, READ_AHEAD_PARTITIONS_MAX)
        if index is not None:
            return [PartitionSource(self._routes.partition(topic, index))]
        return [PartitionSource(partition) for partition in self._routes.partitions_of(topic)]

    # -- start offsets

    def start(
        self,
        session: Session,
        topic: str,
        index: int,
        when: Edge | int,
        isolation: Isolation,
        started: Started,
    ) -> None:
        """Look up the offset at an edge, or of the first record at or after a timestamp; the end if there is none.

        `started` is called with it or with the error, maybe before this returns.
        """
        try:
            if self._authorization.authorizer is not None:
                self._authorization.authorize_topic(session, Operation.READ, topic)
            partition = self._find_led(topic, index)
            offset = None if partition is None else start_in(partition, when, isolation)
        except BrokerError as error:
            started(error)
            return
        if offset is not None:
            started(offset)
            return
        self._tasks.spawn(self._start_elsewhere(TopicPartition(topic, index), when, isolation, started))

    async def starts(
        self, session: Session, topic: str, sources: Sequence[Source], when: Edge | int, isolation: Isolation
    ) -> list[int]:
        """The same for several partitions of a topic. Raises the first error."""
        self._authorization.authorize_topic(session, Operation.READ, topic)
        found: dict[int, int] = {}
        for one in sources:
            partition = self._find_led(topic, one.index)
            if partition is not None:
                found[one.index] = start_in(partition, when, isolation)
        missing = [TopicPartition(topic, one.index) for one in sources if one.index not in found]
        if missing and self._elsewhere is not None:
            offsets = await self._elsewhere.offsets.starts(missing, when, isolation)
            for place, offset in offsets.items():
                if isinstance(offset, BrokerError):
                    raise offset
                found[place.partition] = offset
        return [found[one.index] for one in sources]

    def _find_led(self, topic: str, index: int) -> Partition | None:
        """The partition if it is led here; None if another broker is to be asked. Raises UnknownTopic."""
        if self._elsewhere is None:
            return self._routes.partition(topic, index)
        return self._routes.find_led(topic, index)

    async def _start_elsewhere(
        self, place: TopicPartition, when: Edge | int, isolation: Isolation, started: Started
    ) -> None:
        assert self._elsewhere is not None
        offsets = await self._elsewhere.offsets.starts([place], when, isolation)
        started(offsets[place])

    async def check(self, session: Session, wanted: Wanted) -> None:
        """Raise OffsetOutOfRange unless a reader can start there."""
        source = self.source(session, wanted.topic, wanted.partition)
        await read_waiting(source, wanted)

    # -- read

    def read(
        self,
        session: Session,
        client: Client,
        wanted: Wanted,
        answered: Answered,
        source: Source | None = None,
    ) -> None:
        """Answer immediately if there are records, an error, or no wait time; otherwise when records arrive or the
        time is up.

        A client that disconnects while waiting is not answered. `source`: from `source`, to read on from it later.
        """
        try:
            source = source or self.source(session, wanted.topic, wanted.partition)
        except BrokerError as error:
            answered(error)
            return
        _Read(self._waits, source, client, wanted, answered).go_on()

    def release_waiting(self) -> None:
        """The doors are closing: answer waiting reads with what is available."""
        self._waits.release()


class _Read:
    """One read that may have to wait: for records, for a worker, for another broker."""

    __slots__ = (
        "_answered",
        "_client",
        "_is_gone",
        "_is_opening",
        "_loop",
        "_source",
        "_until_s",
        "_waits",
        "_wanted",
    )

    def __init__(
        self, waits: Waits, source: Source, client: Client, wanted: Wanted, answered: Answered
    ) -> None:
        self._waits = waits
        self._source = source
        self._client = client
        self._wanted = wanted
        """What is still wanted: its offset moves over records that the reader must not see."""
        self._answered = answered
        self._is_opening = False
        self._is_gone = False
        self._loop = asyncio.get_running_loop()
        self._until_s = self._loop.time() + wanted.wait_ms / 1000 if wanted.wait_ms > 0 else 0.0

    def go_on(self) -> None:
        """Read, and wait if there is nothing yet."""
        run = self._look()
        if run is None:
            return
        wait_ms = round((self._until_s - self._loop.time()) * 1000) if self._until_s else 0
        if wait_ms <= 0:
            self._answered(run)
            return
        last = run

        def look() -> bool:
            nonlocal last
            found = self._look()
            if found is not None:
                last = found
            return found is None

        self._waits.start(self._client, [self._source], wait_ms, look, lambda: self._answered(last))

    def _look(self) -> Run | None:
        """Read without waiting; None if the client was answered or the read continues by itself."""
        before = self._wanted.offset
        try:
            run = self._source.read(self._wanted, self._opened)
        except BrokerError as error:
            self._answered(error)
            return None
        if run.records:
            self._answered(run)
            return None
        self._wanted = self._wanted._replace(offset=run.next_offset)
        if run.is_opening:
            self._is_opening = True
            self._client.on_close(self._leave)
            return None
        if before < run.next_offset < run.end_offset:
            self._loop.call_soon(self.go_on)
            return None
        return run

    def _opened(self) -> None:
        """What was decompressed or fetched is there."""
        if not self._is_opening or self._is_gone:
            return
        self._is_opening = False
        self._client.not_on_close(self._leave)
        self.go_on()

    def _leave(self) -> None:
        self._is_gone = True


def start_in(partition: Partition, when: Edge | int, isolation: Isolation) -> int:
    """The start offset of a reader in a partition of this node."""
    found = find_in(partition, when, isolation)
    return end_of(partition, isolation) if found is None else found.offset
