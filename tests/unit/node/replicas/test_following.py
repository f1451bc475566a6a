"""Which partitions a broker fetches: all that it follows, and a limited number of copies, in the order of their ids."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from manual_ports import run
from penstock.core.machines.cluster.values import NO_LEADER, PartitionReplicas
from penstock.core.model import PartitionId
from penstock.core.replication.fetches import ReplicaIdentity
from penstock.node.replicas import following as module
from penstock.node.replicas.followed import FollowedPartition
from penstock.node.replicas.following import Following
from penstock.node.replicas.throttle import Throttle, Throttles, catch_up_throttle
from penstock.node.runtime.meters import Meters

TOPIC_ID = b"t" * 16
SELF, OTHER, THIRD = 1, 2, 3
COPIES_MAX = 3


class FakeFetcher:
    """Fetches nothing; `over` is what the real one calls when a partition needs no fetching any more."""

    def __init__(
        self, links: Any, leader_id: int, identity: Any, throttles: Any, meters: Any, over: Any
    ) -> None:
        self.over = over
        self.followed: dict[PartitionId, FollowedPartition] = {}

    def __len__(self) -> int:
        return len(self.followed)

    def add(self, followed: FollowedPartition) -> None:
        self.followed[followed.id] = followed

    def remove(self, partition: PartitionId) -> None:
        self.followed.pop(partition, None)

    def touch(self, partition: PartitionId) -> None:
        pass

    async def stop(self) -> None:
        self.followed.clear()


class Scene:
    """The partitions of one topic as the catalog places them, and the broker that follows them."""

    def __init__(self) -> None:
        self.placed: dict[PartitionId, PartitionReplicas] = {}
        self.lookups = 0
        cluster = SimpleNamespace(find_partition=self._find)
        self.following = Following(
            SimpleNamespace(cluster=cluster),  # type: ignore[arg-type]
            SimpleNamespace(meters=Meters()),  # type: ignore[arg-type]
            None,  # type: ignore[arg-type]
            lambda: ReplicaIdentity(SELF, 1),
            Throttles(Throttle(lambda: 0), catch_up_throttle(lambda: 0)),
            COPIES_MAX,
            None,  # type: ignore[arg-type]
        )
        self.following.is_active = True
        self._partitions: dict[int, Any] = {}

    def _find(self, partition: PartitionId) -> PartitionReplicas | None:
        self.lookups += 1
        return self.placed.get(partition)

    def place(
        self,
        index: int,
        leader: int = OTHER,
        *,
        is_added: bool = True,
        isr: tuple[int, ...] = (OTHER,),
    ) -> None:
        adding = (SELF,) if is_added else ()
        placed = PartitionReplicas(TOPIC_ID, index, (SELF, OTHER, THIRD), isr, leader, adding=adding)
        self.placed[placed.id] = placed
        partition = self._partitions.setdefault(
            index,
            SimpleNamespace(
                topic_id=TOPIC_ID,
                index=index,
                is_leader=False,
                failure=None,
                config=SimpleNamespace(insync_replicas_min=2),
            ),
        )
        self.following.refresh(partition, placed)

    def close(self, index: int) -> None:
        """The move is cancelled: the partition is not here any more."""
        placed = PartitionReplicas(TOPIC_ID, index, (OTHER,), (OTHER,), OTHER)
        self.placed[placed.id] = placed
        self.following.refresh(None, placed)

    def end(self, index: int) -> None:
        """A fetcher says that there is nothing to fetch any more."""
        followed = self.following._fetched[PartitionId(TOPIC_ID, index)]
        fetcher: Any = self.following._fetchers[followed.leader_id]
        fetcher.over(followed)

    @property
    def fetched(self) -> list[int]:
        fetchers: Any = self.following._fetchers.values()
        return sorted(one.partition for fetcher in fetchers for one in fetcher.followed)


@pytest.fixture(autouse=True)
def fetchers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ReplicaFetcher", FakeFetcher)


def test_copies_wait_for_their_turn_in_order_and_other_replicas_do_not() -> None:
    async def play() -> None:
        scene = Scene()
        for index in (9, 8, 7, 6, 5):
            scene.place(index)
        scene.place(20, is_added=False)
        assert scene.fetched == [7, 8, 9, 20]
        scene.end(8)
        assert scene.fetched == [5, 7, 9, 20]
        scene.following.forget(PartitionId(TOPIC_ID, 20))
        assert scene.fetched == [5, 7, 9]
        scene.close(9)
        assert scene.fetched == [5, 6, 7]
        await scene.following.stop()

    run(play)


def test_a_copy_that_is_cancelled_or_loses_its_leader_gives_its_turn_away() -> None:
    async def play() -> None:
        scene = Scene()
        for index in range(6):
            scene.place(index)
        scene.close(3)
        scene.place(0, NO_LEADER)
        assert scene.fetched == [1, 2, 4]
        scene.place(0, THIRD)
        scene.place(3)
        scene.place(1, THIRD)
        assert scene.fetched == [0, 2, 4], "whoever loses a turn queues again, and the lowest id is first"
        assert {one.leader_id for one in scene.following._fetched.values()} == {OTHER, THIRD}
        scene.end(2)
        assert scene.fetched == [0, 1, 4]
        await scene.following.stop()
        assert scene.fetched == []

    run(play)


def test_a_change_of_one_partition_does_not_look_at_all_that_wait() -> None:
    async def play() -> None:
        scene = Scene()
        for index in range(2_000):
            scene.place(index)
        for index in range(100, 300):
            scene.place(index, THIRD)
        assert scene.fetched == [0, 1, 2] and scene.lookups == COPIES_MAX
        await scene.following.stop()

    run(play)


def test_a_replica_returns_while_it_is_not_in_sync_and_enough_others_are() -> None:
    async def play() -> None:
        scene = Scene()
        partition = PartitionId(TOPIC_ID, 0)
        for isr, is_returning in (
            ((OTHER,), False),
            ((OTHER, THIRD), True),
            ((OTHER, SELF), False),
            ((OTHER, THIRD), True),
            ((OTHER, THIRD, SELF), False),
        ):
            scene.place(0, is_added=False, isr=isr)
            assert scene.following._fetched[partition].is_returning is is_returning, isr
        scene.place(1, isr=(OTHER, THIRD))
        assert not scene.following._fetched[PartitionId(TOPIC_ID, 1)].is_returning, "it is being added"
        await scene.following.stop()

    run(play)
