"""Fetches records of partitions that other brokers lead, for the subscriptions of this broker.

At most two fetches per leader are under way, whatever the number of partitions and subscriptions: a long poll with
all partitions that waited for records when it was sent, and a short one with those that came later. When the long poll
returns, all join the next one. So idle subscriptions cost two calls a second per leader, and waiting fetches never use
up the calls that a link may carry.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence

from penstock.core.errors import (
    BrokerError,
    LeaderNotAvailable,
    NotLeader,
    OffsetOutOfRange,
    PeerUnavailable,
    Throttled,
    TimedOut,
    UnknownTopic,
    UnknownTopicId,
)
from penstock.core.machines.cluster.values import NO_LEADER
from penstock.core.model import Isolation, TopicPartition
from penstock.node.coordinators.remote_feed import RemoteFeed
from penstock.node.peers.links import PeerLinks
from penstock.node.peers.peer_calls import RemoteBatches, fetch, look_up_offset
from penstock.node.peers.peer_queries import EARLIEST, fetch_many
from penstock.node.runtime.tasks import Tasks

logger = logging.getLogger("penstock.subscriptions")

LONG_WAIT_MS, SHORT_WAIT_MS = 500, 25
"""How long a poll waits for records. The short one bounds how long a partition with records waits behind idle ones."""
PARTITION_BYTES_MAX = 256 << 10
"""Bytes of one partition per fetch: what a subscription holds ahead."""
POLL_BYTES_MAX = 4 << 20
CALL_MS_MAX = 5_000
"""Time limit of a call beyond the time that it may wait."""
RETRY_S = 0.2
"""Pause before partitions without a reachable leader are tried again."""
LOOK_UPS_MAX = 8
"""Single reads under way at a time."""

AWAY = (NotLeader, LeaderNotAvailable, PeerUnavailable, TimedOut, Throttled, UnknownTopic, UnknownTopicId)
"""The leader is elsewhere, unreachable or busy, or has not heard of a new topic yet: try again."""


class _Polls:
    """The polls of one leader that are under way."""

    __slots__ = ("has_long", "has_short")

    def __init__(self) -> None:
        self.has_long = self.has_short = False


class FeedFetcher:
    """The remote reads of one broker. `leader_of` names the leader of a partition; see PartitionTable."""

    def __init__(self, links: PeerLinks, node_id: int, leader_of: Callable[[str, int], int]) -> None:
        self._links = links
        self._node_id = node_id
        self._leader_of = leader_of
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks()
        self._wanting: dict[RemoteFeed, None] = {}
        """Partitions that wait for records and are in no poll, longest first."""
        self._polled: dict[RemoteFeed, None] = {}
        self._polls: dict[int, _Polls] = {}
        self._looking_up: dict[RemoteFeed, None] = {}
        self._look_ups = asyncio.Semaphore(LOOK_UPS_MAX)
        self._is_due = False

    def close(self) -> None:
        self._wanting.clear()
        self._polled.clear()
        self._tasks.cancel()

    # -- in order

    def want(self, partition: RemoteFeed) -> None:
        """See RemoteReader."""
        if partition not in self._polled:
            self._wanting[partition] = None
            self._poll_soon()

    def unwant(self, partition: RemoteFeed) -> None:
        """See RemoteReader."""
        self._wanting.pop(partition, None)
        self._polled.pop(partition, None)

    def _poll_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self._start_polls)

    def _start_polls(self) -> None:
        self._is_due = False
        by_leader: dict[int, list[RemoteFeed]] = {}
        for partition in self._wanting:
            by_leader.setdefault(self._find_leader(partition.place), []).append(partition)
        for leader_id, partitions in by_leader.items():
            if leader_id == NO_LEADER:
                self._loop.call_later(RETRY_S, self._poll_soon)
                continue
            polls = self._polls.setdefault(leader_id, _Polls())
            if not polls.has_long:
                polls.has_long = True
                self._begin(leader_id, partitions, LONG_WAIT_MS)
            elif not polls.has_short:
                polls.has_short = True
                self._begin(leader_id, partitions, SHORT_WAIT_MS)

    def _find_leader(self, place: TopicPartition) -> int:
        """NO_LEADER too for a partition that this broker is about to lead: its reader is about to change."""
        try:
            leader_id = self._leader_of(*place)
        except UnknownTopic:
            return NO_LEADER
        return NO_LEADER if leader_id == self._node_id else leader_id

    def _begin(self, leader_id: int, partitions: Sequence[RemoteFeed], wait_ms: int) -> None:
        for partition in partitions:
            del self._wanting[partition]
            self._polled[partition] = None
        self._tasks.spawn(self._poll(leader_id, partitions, wait_ms))

    async def _poll(self, leader_id: int, partitions: Sequence[RemoteFeed], wait_ms: int) -> None:
        wanted = [(one.id, one.wanted_offset) for one in partitions]
        pause_s = 0.0
        try:
            found = await fetch_many(
                self._links,
                leader_id,
                wanted,
                partition_bytes_max=PARTITION_BYTES_MAX,
                bytes_max=POLL_BYTES_MAX,
                wait_ms=wait_ms,
                timeout_ms=CALL_MS_MAX,
                isolation=Isolation.READ_COMMITTED,
            )
            for partition, (_, offset), outcome in zip(partitions, wanted, found, strict=True):
                if self._settle(leader_id, partition, offset, outcome):
                    pause_s = RETRY_S
        except BrokerError as error:
            pause_s = RETRY_S
            if not isinstance(error, AWAY):
                logger.warning("cannot fetch from broker %d; retrying: %s", leader_id, error)
        finally:
            polls = self._polls[leader_id]
            if wait_ms == LONG_WAIT_MS:
                polls.has_long = False
            else:
                polls.has_short = False
            for one in partitions:
                if one in self._polled:
                    del self._polled[one]
                    self._wanting[one] = None
        if pause_s:
            self._loop.call_later(pause_s, self._poll_soon)
        else:
            self._poll_soon()

    def _settle(
        self, leader_id: int, partition: RemoteFeed, offset: int, outcome: RemoteBatches | BrokerError
    ) -> bool:
        """Tell a partition what came; it stays in the poll if that was nothing. True if it has to be tried again
        later."""
        if partition not in self._polled or partition.wanted_offset != offset:
            return False
        if isinstance(outcome, AWAY):
            return True
        if isinstance(outcome, RemoteBatches) and not len(outcome.records):
            partition.note_offsets(outcome)
            return False
        del self._polled[partition]
        if isinstance(outcome, OffsetOutOfRange):
            self._tasks.spawn(self._find_start(leader_id, partition, offset))
        elif isinstance(outcome, BrokerError):
            partition.fail(outcome)
        else:
            partition.arrive(offset, outcome)
        return False

    async def _find_start(self, leader_id: int, partition: RemoteFeed, offset: int) -> None:
        try:
            partition.set_start(await self._start_after(leader_id, partition, offset))
        except BrokerError as error:
            partition.fail(error)

    async def _start_after(self, leader_id: int, partition: RemoteFeed, offset: int) -> int:
        """The start of a partition in which an offset is out of range. Raises that it is beyond the end, if so."""
        first = await look_up_offset(
            self._links, leader_id, partition.place, EARLIEST, timeout_ms=CALL_MS_MAX
        )
        if first.offset <= offset:
            raise OffsetOutOfRange(
                f"{partition}: offset {offset} is beyond the end of the log on broker {leader_id}: records that were"
                " read before are missing there"
            )
        return first.offset

    # -- single reads

    def look_up(self, partition: RemoteFeed, offset: int, bytes_max: int) -> None:
        """See RemoteReader."""
        if partition not in self._looking_up:
            self._looking_up[partition] = None
            self._tasks.spawn(self._look_up(partition, offset, bytes_max))

    async def _look_up(self, partition: RemoteFeed, offset: int, bytes_max: int) -> None:
        outcome: RemoteBatches | BrokerError
        try:
            async with self._look_ups:
                outcome = await self.read_now(partition, offset, bytes_max)
        except BrokerError as error:
            outcome = error
        finally:
            del self._looking_up[partition]
        if isinstance(outcome, RemoteBatches):
            partition.found(offset, outcome)
        elif offset >= partition.start_offset:
            partition.fail(outcome)
        else:
            partition.set_start(partition.start_offset)

    async def read_now(self, partition: RemoteFeed, offset: int, bytes_max: int) -> RemoteBatches:
        """See RemoteReader."""
        leader_id = self._reachable_leader(partition.place)
        try:
            batches = await fetch(
                self._links,
                leader_id,
                partition.id,
                offset,
                bytes_max=bytes_max,
                wait_ms=0,
                timeout_ms=CALL_MS_MAX,
                isolation=Isolation.READ_COMMITTED,
            )
        except OffsetOutOfRange:
            partition.start_offset = await self._start_after(leader_id, partition, offset)
            raise
        if not len(batches.records) and batches.last_stable_offset <= offset:
            # A leader that has just started may not serve again what it has served before.
            raise LeaderNotAvailable(f"{partition}: broker {leader_id} does not serve offset {offset} yet")
        return batches

    async def offset_at(
        self,
        place: TopicPartition,
        timestamp_ms: int,
        isolation: Isolation = Isolation.READ_UNCOMMITTED,
    ) -> int:
        """The first offset of a partition, or the one after the last record. Raises BrokerError."""
        found = await look_up_offset(
            self._links,
            self._reachable_leader(place),
            place,
            timestamp_ms,
            timeout_ms=CALL_MS_MAX,
            isolation=isolation,
        )
        return found.offset

    def _reachable_leader(self, place: TopicPartition) -> int:
        leader_id = self._find_leader(place)
        if leader_id == NO_LEADER:
            raise LeaderNotAvailable(f"{place.topic}-{place.partition} has no leader at the moment")
        return leader_id
