"""A partition that the broker itself writes to, wherever it is led: each record is appended once.

A record is written in the name of an idempotent producer and sent again, unchanged, until it is acknowledged: an append
whose outcome is unknown cannot become two. Records are as durable as the topic promises its producers.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable

from penstock.core.errors import (
    BrokerError,
    NotLeader,
    OutOfOrder,
    StaleProducer,
    TimedOut,
    UnknownProducer,
    UnknownTopic,
)
from penstock.core.machines.catalog.events import Topic
from penstock.core.model import Acks, NewRecord, PartitionId, Record, TopicPartition
from penstock.core.records.build import build_batch, stamp_producer
from penstock.node.coordinators.own_log import READ_BYTES, IsWanted, LocalLog
from penstock.node.peers.peer_calls import RemoteAppend, send_batch
from penstock.node.remote.leaders import AWAY
from penstock.node.remote.other_brokers import OtherBrokers
from penstock.node.remote.remote_source import ReadAhead
from penstock.node.replicas.committed_records import RECORDS_MAX
from penstock.node.replicas.edges import Bounds
from penstock.node.replicas.partition import Partition
from penstock.node.replicas.sources import Wanted, read_waiting
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.tasks import resolver

CALL_MS_MAX = 5_000
RETRY_S, RETRY_S_MAX = 0.05, 1.0
SEQUENCES = 1 << 31

FindPartition = Callable[[str, int], Partition]
NewProducerId = Callable[[], Awaitable[int]]


class RemoteLog:
    """One partition that may be led anywhere, here too."""

    def __init__(
        self,
        runtime: Runtime,
        others: OtherBrokers,
        find_partition: FindPartition,
        new_producer_id: NewProducerId,
        topic: Topic,
        index: int,
    ) -> None:
        self._runtime = runtime
        self._others = others
        self._find_partition = find_partition
        self._new_producer_id = new_producer_id
        self._topic = topic
        self.place = TopicPartition(topic.name, index)
        self._id = PartitionId(topic.id, index)
        self._producer_id: int | None = None
        self._sequence = 0
        self._turn = asyncio.Lock()
        """A producer has one batch under way: it is in order, whatever is sent again."""

    def __str__(self) -> str:
        return f"{self.place.topic}-{self.place.partition}"

    # -- append

    async def append(self, record: NewRecord, is_wanted: IsWanted) -> None:
        """See OwnLog. Sends the record again until it is acknowledged or refused, or nobody wants it any more."""
        async with self._turn:
            pause_s = RETRY_S
            batch = await self._stamped(record)
            while True:
                try:
                    await self._append(batch)
                    break
                except (OutOfOrder, StaleProducer, UnknownProducer):
                    # The partition has forgotten this producer. It rejected the batch, so another one may write it.
                    self._producer_id = None
                    raise
                except AWAY as error:
                    if not is_wanted() or self._is_deleted():
                        self._producer_id = (
                            None  # the outcome is unknown: its sequence must not be used again
                        )
                        raise TimedOut(
                            f"{self}: gave up to append, the outcome is unknown: {error}"
                        ) from None
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, RETRY_S_MAX)
            self._sequence = (self._sequence + 1) % SEQUENCES

    async def _stamped(self, record: NewRecord) -> bytes:
        if self._producer_id is None:
            self._producer_id, self._sequence = await self._new_producer_id(), 0
        batch = build_batch([record], self._runtime.clock.now_ms())
        stamp_producer(batch, self._producer_id, 0, self._sequence)
        return bytes(batch)

    async def _append(self, batch: bytes) -> None:
        try:
            partition = self._find_partition(*self.place)
        except NotLeader as elsewhere:
            await self._send(elsewhere.leader_id, batch)
            return
        appended = partition.append(memoryview(bytearray(batch)))
        await partition.persisted(appended.end_offset)

    async def _send(self, leader_id: int, batch: bytes) -> None:
        reply: asyncio.Future[RemoteAppend | BrokerError] = asyncio.get_running_loop().create_future()
        send_batch(
            self._others.leaders.links,
            leader_id,
            self._id,
            batch,
            resolver(reply),
            timeout_ms=CALL_MS_MAX,
            acks=Acks.ALL,
        )
        outcome = await reply
        if isinstance(outcome, BrokerError):
            raise outcome

    def _is_deleted(self) -> bool:
        try:
            self._find_partition(*self.place)
        except UnknownTopic:
            return True
        except BrokerError:
            return False
        return False

    async def flush(self) -> None:
        """See OwnLog. An acknowledged record is as durable as its topic promises."""

    # -- read

    async def high_watermark(self) -> int:
        try:
            return self._find_partition(*self.place).high_watermark
        except NotLeader:
            return (await self._bounds()).end_offset

    async def records(self, offset: int) -> AsyncIterator[Record]:
        """See OwnLog."""
        try:
            partition = self._find_partition(*self.place)
        except NotLeader:
            found = self._records_elsewhere(offset)
        else:
            found = LocalLog(self._runtime, partition).records(offset)
        async for record in found:
            yield record

    async def _records_elsewhere(self, offset: int) -> AsyncIterator[Record]:
        offset = max(offset, (await self._bounds()).start_offset)
        source = self._others.reads.open(
            self._topic, self.place.partition, ReadAhead(1), READ_BYTES, is_patient=False
        )
        end_offset: int | None = None
        while end_offset is None or offset < end_offset:
            run = await read_waiting(source, Wanted(*self.place, offset, RECORDS_MAX, READ_BYTES))
            for record in run.records:
                yield record
            if run.next_offset == offset:
                return
            offset = run.next_offset
            end_offset = run.end_offset if end_offset is None else end_offset

    async def _bounds(self) -> Bounds:
        (found,) = (await self._others.offsets.bounds([self.place])).values()
        if isinstance(found, BrokerError):
            raise found
        return found
