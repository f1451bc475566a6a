"""Partitions join the fetcher of their leader at any moment, also while its Fetch is being given up for others."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest

from penstock.core.model import PartitionId
from penstock.core.replication.fetches import ReplicaIdentity
from penstock.node.replicas import fetcher as module
from penstock.node.replicas.fetcher import JOIN_S, ReplicaFetcher, Throttle
from penstock.node.replicas.followed import FollowedPartition
from penstock.node.runtime.meters import Meters

LATER_S = 1e-6


class Copy:
    """As much of a followed partition as a fetcher needs to ask for it."""

    retry_s = 0.0
    is_flushed = True
    is_added = False

    def __init__(self, index: int) -> None:
        self.id = PartitionId(bytes(16), index)

    def wanted(self, bytes_max: int) -> PartitionId:
        return self.id


def test_a_partition_joins_in_the_moment_in_which_a_fetch_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[PartitionId]] = []

    async def never_answered(_: object, __: int, ___: object, wanted: Any, **____: object) -> None:
        asked.append(wanted)
        await asyncio.Event().wait()

    monkeypatch.setattr(module, "fetch_as_replica", never_answered)
    copies = [cast(FollowedPartition, Copy(index)) for index in range(3)]

    async def play() -> None:
        loop = asyncio.get_running_loop()
        crashes: list[dict[str, Any]] = []
        loop.set_exception_handler(lambda _, context: crashes.append(context))
        fetcher = ReplicaFetcher(
            cast(Any, None), 1, lambda: ReplicaIdentity(2, 1), Throttle(lambda: 0), Meters(), lambda _: None
        )
        fetcher.add(copies[0])
        while not asked:
            await asyncio.sleep(0)
        began_s = loop.time()
        fetcher.add(copies[1])
        poll = fetcher._poll
        assert poll is not None
        expires_s = poll.when()
        assert expires_s is not None
        assert expires_s <= began_s + JOIN_S
        loop.call_at(expires_s + LATER_S, fetcher.add, copies[2])
        while not asked or len(asked[-1]) < len(copies):
            await asyncio.sleep(JOIN_S)
            assert not crashes, crashes
        await fetcher.stop()

    asyncio.run(play())
    assert asked[-1] == [one.id for one in copies]
