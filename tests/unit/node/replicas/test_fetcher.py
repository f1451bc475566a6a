"""Partitions join the fetcher of their leader at any moment, also while its Fetch waits or is being answered."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from penstock.core.errors import PeerUnavailable
from penstock.core.model import PartitionId
from penstock.core.replication.fetches import ReplicaFetch, ReplicaIdentity
from penstock.node.replicas.fetcher import (
    FLIGHTS_MAX,
    PARTITION_BYTES_MAX,
    PARTITIONS_MAX,
    RESPONSE_BYTES_MAX,
    ReplicaFetcher,
)
from penstock.node.replicas.followed import FollowedPartition
from penstock.node.replicas.throttle import (
    CATCH_UP_BYTES_MAX,
    CATCH_UP_PARTITION_BYTES_MAX,
    Throttle,
    Throttles,
    catch_up_throttle,
)
from penstock.node.runtime.meters import Meters
from penstock.wire.kafka import ErrorCode, messages

SESSION_ID = 9


class Copy:
    """As much of a followed partition as a fetcher needs to ask for it."""

    is_flushed = True
    is_added = False
    is_over = False

    def __init__(self, index: int, lag: int = 0) -> None:
        self.id = PartitionId(bytes(16), index)
        self.retry_s = 0.0
        self.delays = 0
        self.lag = lag

    @property
    def is_catching_up(self) -> bool:
        return self.lag > 0

    def wanted(self, bytes_max: int) -> ReplicaFetch:
        return ReplicaFetch(self.id, 0, 0, 0, 0, bytes_max)

    def delay(self, error: Exception) -> None:
        self.delays += 1


class Leader:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.requests: list[messages.FetchRequest] = []
        self._answers: list[Callable[[Any], None]] = []

    def send(
        self, _leader_id: int, request: Any, answered: Callable[[Any], None], *, timeout_ms: int
    ) -> None:
        self.requests.append(request)
        self._answers.append(answered)

    async def answer(self, outcome: Any = None) -> None:
        answered = self._answers.pop(0)
        answered(outcome or messages.FetchResponse(session_id=SESSION_ID, responses=[]))
        await asyncio.sleep(0.01)

    def named(self) -> list[list[int]]:
        return [
            [one.partition for topic in sent.topics for one in topic.partitions] for sent in self.requests
        ]


async def fetching(leader: Leader, *copies: Copy, catch_up_rate: int = 0) -> ReplicaFetcher:
    links, identity = cast(Any, leader), ReplicaIdentity(2, 1)
    throttles = Throttles(Throttle(lambda: 0), catch_up_throttle(lambda: catch_up_rate))
    fetcher = ReplicaFetcher(links, 1, lambda: identity, throttles, Meters(), lambda _: None)
    for one in copies:
        fetcher.add(cast(FollowedPartition, one))
    await asyncio.sleep(0.01)
    return fetcher


def test_a_partition_that_joins_is_named_while_another_fetch_waits() -> None:
    async def play() -> None:
        leader = Leader()
        fetcher = await fetching(leader, Copy(0), Copy(1))
        fetcher.add(cast(FollowedPartition, Copy(2)))
        await asyncio.sleep(0.01)
        assert leader.named() == [[0, 1]], "the session has no id yet"
        await leader.answer()
        assert leader.named() == [[0, 1], [2]]
        for index in (3, 4, 5):
            fetcher.add(cast(FollowedPartition, Copy(index)))
            await asyncio.sleep(0.01)
        assert leader.named() == [[0, 1], [2], [3]], "the others wait for an answer, and go together"
        await leader.answer()
        assert leader.named()[3:] == [[4, 5]]
        assert len(leader.requests) == 2 + FLIGHTS_MAX
        assert [one.session_epoch for one in leader.requests] == [0, 1, 2, 3]
        await fetcher.stop()

    asyncio.run(play())


def test_a_partition_that_leaves_is_forgotten() -> None:
    async def play() -> None:
        leader = Leader()
        copies = Copy(0), Copy(1)
        fetcher = await fetching(leader, *copies)
        await leader.answer()
        fetcher.remove(copies[1].id)
        await asyncio.sleep(0.01)
        (gone,) = leader.requests[-1].forgotten_topics_data
        assert (gone.partitions, leader.named()[-1]) == ([1], [])
        await fetcher.stop()

    asyncio.run(play())


def test_all_are_named_again_when_the_session_is_lost() -> None:
    async def play() -> None:
        leader, copies = Leader(), [Copy(0), Copy(1)]
        fetcher = await fetching(leader, *copies)
        await leader.answer()
        lost = int(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        await leader.answer(messages.FetchResponse(error_code=lost, responses=[]))
        assert leader.named() == [[0, 1], [], [0, 1]]
        assert (leader.requests[-1].session_id, leader.requests[-1].session_epoch) == (0, 0)
        await leader.answer(PeerUnavailable("gone"))
        assert leader.named()[3:] == [[0, 1]]
        assert [one.delays for one in copies] == [1, 1], "a lost link delays them, a lost session does not"
        await fetcher.stop()

    asyncio.run(play())


def test_many_partitions_are_named_by_several_requests() -> None:
    async def play() -> None:
        leader = Leader()
        fetcher = await fetching(leader, *(Copy(index) for index in range(PARTITIONS_MAX + 5)))
        await leader.answer()
        assert [len(some) for some in leader.named()] == [PARTITIONS_MAX, 5]
        await fetcher.stop()

    asyncio.run(play())


def test_a_fetch_names_few_partitions_that_catch_up_and_leaves_room_for_the_others() -> None:
    async def play() -> None:
        leader = Leader()
        behind = [Copy(index, lag=1) for index in range(10)]
        fetcher = await fetching(leader, *behind, Copy(10), catch_up_rate=1 << 40)
        (request,) = leader.requests
        count = CATCH_UP_BYTES_MAX // CATCH_UP_PARTITION_BYTES_MAX
        assert leader.named() == [[*range(count), 10]]
        sizes = [one.partition_max_bytes for topic in request.topics for one in topic.partitions]
        assert sizes == [CATCH_UP_PARTITION_BYTES_MAX] * count + [PARTITION_BYTES_MAX]
        assert request.max_bytes == RESPONSE_BYTES_MAX + CATCH_UP_BYTES_MAX
        await leader.answer()
        assert leader.named()[1:] == [[*range(count, 2 * count)]], "the others have their turn"
        await fetcher.stop()

    asyncio.run(play())


def test_partitions_that_catch_up_are_not_limited_without_a_rate() -> None:
    async def play() -> None:
        leader = Leader()
        fetcher = await fetching(leader, *(Copy(index, lag=1) for index in range(10)))
        assert leader.named() == [[*range(10)]]
        await fetcher.stop()

    asyncio.run(play())
