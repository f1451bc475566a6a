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
from penstock.core.model import Acks, Isolation, NewRecord, Record
from penstock.core.records.build import build_batch, stamp_producer
from penstock.node.coordinators.feed_fetcher import AWAY, FeedFetcher
from penstock.node.coordinators.own_log import READ_BYTES, IsWanted
from penstock.node.coordinators.remote_feed import RemoteFeed
from penstock.node.peers.links import PeerLinks
from penstock.node.peers.peer_calls import RemoteAppend, send_batch
from penstock.node.peers.peer_queries import EARLIEST, LATEST
from penstock.node.replicas.committed_records import every_committed
from penstock.node.replicas.partition import Partition
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
        links: PeerLinks,
        fetcher: FeedFetcher,
        find_partition: FindPartition,
        new_producer_id: NewProducerId,
        remote: RemoteFeed,
    ) -> None:
        self._runtime = runtime
        self._links = links
        self._fetcher = fetcher
        self._find_partition = find_partition
        self._new_producer_id = new_producer_id
        self._remote = remote
        self._producer_id: int | None = None
        self._sequence = 0
        self._turn = asyncio.Lock()
        """A producer has one batch under way: it is in order, whatever is sent again."""

    @property
    def topic(self) -> str:
        return self._remote.place.topic

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
                            f"{self._remote}: gave up to append, the outcome is unknown: {error}"
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
        place = self._remote.place
        try:
            partition = self._find_partition(*place)
        except NotLeader as elsewhere:
            await self._send(elsewhere.leader_id, batch)
            return
        appended = partition.append(memoryview(bytearray(batch)))
        await partition.sync_to(appended.end_offset)

    async def _send(self, leader_id: int, batch: bytes) -> None:
        reply: asyncio.Future[RemoteAppend | BrokerError] = asyncio.get_running_loop().create_future()
        send_batch(
            self._links,
            leader_id,
            self._remote.id,
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
            self._find_partition(*self._remote.place)
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
            return self._find_partition(*self._remote.place).high_watermark
        except NotLeader:
            return await self._fetcher.offset_at(self._remote.place, LATEST)

    async def records(self, offset: int) -> AsyncIterator[Record]:
        """See OwnLog."""
        try:
            partition = self._find_partition(*self._remote.place)
        except NotLeader:
            async for record in self._remote_records(offset):
                yield record
            return
        async for record in every_committed(partition, offset, READ_BYTES):
            yield record

    async def _remote_records(self, offset: int) -> AsyncIterator[Record]:
        place = self._remote.place
        end_offset = await self._fetcher.offset_at(place, LATEST, Isolation.READ_COMMITTED)
        offset = max(offset, await self._fetcher.offset_at(place, EARLIEST))
        while offset < end_offset:
            found = await self._remote.read_opened(offset, READ_BYTES)
            for record in found.records:
                yield record
            if found.next_offset == offset:
                return  # compaction has removed the rest
            offset = found.next_offset
