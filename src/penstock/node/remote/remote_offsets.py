"""Asks other brokers about offsets and sizes of the partitions that they lead, and about their groups.

Questions go to all leaders at the same time, in pieces of bounded size. Whoever does not answer in time is missing: its
partitions have an error in place of the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from penstock.core.errors import BrokerError, LeaderNotAvailable, NotLeader, UnknownTopic
from penstock.core.limits import PEER_QUERY_MS_MAX, PEER_QUERY_PARTITIONS_MAX
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.model import Isolation, PartitionId, TopicPartition
from penstock.node.peers.peer_calls import RemoteOffset
from penstock.node.peers.peer_queries import (
    EARLIEST,
    LATEST,
    NEWEST,
    RemoteGroup,
    describe_sizes,
    list_groups,
    list_many_offsets,
)
from penstock.node.remote.leaders import UNCHANGED, Leaders
from penstock.node.replicas.edges import Bounds, Edge

QUERIES_MAX = 4
"""Questions to one broker at the same time."""

TIMESTAMPS = {Edge.EARLIEST: EARLIEST, Edge.LATEST: LATEST, Edge.NEWEST: NEWEST}
NOTHING = -1
"""The offset of a lookup without a match."""

T = TypeVar("T")
Answers = Mapping[TopicPartition, T | BrokerError]
Ask = Callable[[int, Sequence[TopicPartition], int], Awaitable[Answers[T]]]
"""Asks a broker about partitions, within a number of milliseconds."""


class RemoteDetail(NamedTuple):
    """Offsets and size of a partition on another broker."""

    start_offset: int
    high_watermark: int
    last_stable_offset: int
    size_bytes: int


class RemoteOffsets:
    """The questions of one broker to the others."""

    def __init__(self, leaders: Leaders, catalog: Catalog) -> None:
        self._catalog = catalog
        self._leaders = leaders
        self._links = leaders.links
        self._turns: dict[int, asyncio.Semaphore] = {}

    # -- questions

    async def starts(
        self, places: Sequence[TopicPartition], when: Edge | int, isolation: Isolation
    ) -> Answers[int]:
        """The offset at an edge, or of the first record at or after a timestamp; the end if there is none."""
        timestamp = TIMESTAMPS[when] if isinstance(when, Edge) else max(when, LATEST)
        timestamps = (timestamp,) if timestamp in (EARLIEST, LATEST) else (timestamp, LATEST)

        async def ask(broker_id: int, some: Sequence[TopicPartition], left_ms: int) -> Answers[int]:
            found = await self._list(broker_id, some, timestamps, isolation, left_ms)
            return {
                place: one if isinstance(one, BrokerError) else one[-1] if one[0] == NOTHING else one[0]
                for place, one in found.items()
            }

        return await self._ask_all(places, ask)

    async def bounds(self, places: Sequence[TopicPartition]) -> Answers[Bounds]:
        """Start offset and high watermark."""

        async def ask(broker_id: int, some: Sequence[TopicPartition], left_ms: int) -> Answers[Bounds]:
            found = await self._list(broker_id, some, (EARLIEST, LATEST), Isolation.READ_UNCOMMITTED, left_ms)
            return {
                place: one if isinstance(one, BrokerError) else Bounds(*one) for place, one in found.items()
            }

        return await self._ask_all(places, ask)

    async def details(self, places: Sequence[TopicPartition]) -> Answers[RemoteDetail]:
        """Offsets and sizes."""

        async def ask(broker_id: int, some: Sequence[TopicPartition], left_ms: int) -> Answers[RemoteDetail]:
            bounds, stable, sizes = await asyncio.gather(
                self._list(broker_id, some, (EARLIEST, LATEST), Isolation.READ_UNCOMMITTED, left_ms),
                self._list(broker_id, some, (LATEST,), Isolation.READ_COMMITTED, left_ms),
                describe_sizes(self._links, broker_id, some, timeout_ms=left_ms),
            )
            found: dict[TopicPartition, RemoteDetail | BrokerError] = {}
            for place in some:
                first, second = bounds[place], stable[place]
                if isinstance(first, BrokerError):
                    found[place] = first
                elif isinstance(second, BrokerError):
                    found[place] = second
                else:
                    # Asked one after the other: records may have been committed or deleted in between.
                    high_watermark = max(first[1], second[0])
                    found[place] = RemoteDetail(first[0], high_watermark, second[0], sizes.get(place, 0))
            return found

        return await self._ask_all(places, ask)

    async def groups(self) -> Mapping[int, list[RemoteGroup] | BrokerError]:
        """The groups of every other broker that is running, by broker."""
        cluster, own_id = self._catalog.cluster, self._leaders.node_id
        others = [one.broker_id for one in cluster.brokers if not one.is_fenced and one.broker_id != own_id]

        async def ask(broker_id: int) -> list[RemoteGroup] | BrokerError:
            try:
                return await list_groups(self._links, broker_id, timeout_ms=PEER_QUERY_MS_MAX)
            except BrokerError as error:
                return error

        return dict(zip(others, await asyncio.gather(*map(ask, others)), strict=True))

    async def _list(
        self,
        broker_id: int,
        places: Sequence[TopicPartition],
        timestamps: tuple[int, ...],
        isolation: Isolation,
        left_ms: int,
    ) -> Mapping[TopicPartition, tuple[int, ...] | BrokerError]:
        """The offsets of each partition for all of the timestamps."""
        wanted = [(place, timestamp) for place in places for timestamp in timestamps]
        rows = iter(
            await list_many_offsets(self._links, broker_id, wanted, isolation=isolation, timeout_ms=left_ms)
        )
        found: dict[TopicPartition, tuple[int, ...] | BrokerError] = {}
        for place in places:
            offsets = [next(rows) for _ in timestamps]
            error = next((one for one in offsets if isinstance(one, BrokerError)), None)
            if isinstance(error, UnknownTopic):
                # It is in the catalog of this broker, so the other one has not heard of it yet.
                error = NotLeader(f"broker {broker_id} does not know {place.topic}-{place.partition} yet")
            found[place] = error or tuple(one.offset for one in offsets if isinstance(one, RemoteOffset))
        return found

    # -- asking

    async def _ask_all(self, places: Sequence[TopicPartition], ask: Ask[T]) -> Answers[T]:
        """Ask the leaders of all partitions, again where one of them was the wrong one."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + PEER_QUERY_MS_MAX / 1000
        answers: dict[TopicPartition, T | BrokerError] = {}
        left, attempt = list(places), 0
        while left:
            left_ms = max(1, round((deadline_s - loop.time()) * 1000))
            by_leader, lost = self._group(left)
            answers |= lost
            jobs = [
                self._ask_one(broker_id, some[start : start + PEER_QUERY_PARTITIONS_MAX], left_ms, ask)
                for broker_id, some in by_leader.items()
                for start in range(0, len(some), PEER_QUERY_PARTITIONS_MAX)
            ]
            left = []
            for found in await asyncio.gather(*jobs):
                answers |= found
                left += [place for place, one in found.items() if isinstance(one, UNCHANGED)]
            pause_s = self._leaders.pause_s(attempt, is_same=True)
            if not left or loop.time() + pause_s >= deadline_s or self._links.is_closed:
                break
            attempt += 1
            await asyncio.sleep(pause_s)
        return answers

    def _group(
        self, places: Iterable[TopicPartition]
    ) -> tuple[dict[int, list[TopicPartition]], dict[TopicPartition, BrokerError]]:
        """Partitions by leader, and the errors of those without."""
        by_leader: dict[int, list[TopicPartition]] = {}
        lost: dict[TopicPartition, BrokerError] = {}
        for place in places:
            try:
                topic = self._catalog.topic_with(*place)
                leader_id = self._leaders.find(PartitionId(topic.id, place.partition))
                if leader_id == self._leaders.node_id:
                    name = f"{place.topic}-{place.partition}"
                    raise LeaderNotAvailable(f"{name} is about to be led by this broker; ask again")
            except BrokerError as error:
                lost[place] = error
            else:
                by_leader.setdefault(leader_id, []).append(place)
        return by_leader, lost

    async def _ask_one(
        self, broker_id: int, places: Sequence[TopicPartition], left_ms: int, ask: Ask[T]
    ) -> Answers[T]:
        turns = self._turns.setdefault(broker_id, asyncio.Semaphore(QUERIES_MAX))
        async with turns:
            try:
                return await ask(broker_id, places, left_ms)
            except BrokerError as error:
                return dict.fromkeys(places, error)
