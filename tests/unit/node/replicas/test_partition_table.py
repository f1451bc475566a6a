"""Which partitions a node holds and leads, as the catalog changes; what a lookup says about the others."""

from __future__ import annotations

import asyncio

import pytest

from manual_ports import Hand, PromptWorkers, append, run, turns
from penstock.core.errors import LeaderNotAvailable, NotLeader, UnknownTopic
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Topic, TopicSaved
from penstock.core.machines.cluster.events import BrokerSaved, PartitionSaved
from penstock.core.machines.cluster.values import NO_LEADER, BrokerRegistration, PartitionReplicas
from penstock.core.model import Address
from penstock.node.replicas.partition import Partition
from penstock.node.replicas.partition_table import TOPICS_DIRECTORY, PartitionTable
from penstock.node.runtime.slices import run_unsliced

TOPIC_ID = bytes(range(16))
ME, OTHER = 1, 2


class Scene:
    """A table of broker 1 over a catalog that the test changes."""

    def __init__(
        self,
        *,
        is_cluster: bool = True,
        hand: Hand | None = None,
        recovery_points: dict[str, int] | None = None,
    ) -> None:
        self.hand = hand or Hand(workers=PromptWorkers())
        self.catalog = Catalog()
        self.roles: list[tuple[int, bool, int]] = []
        """(partition, whether it leads, epoch), as the table reported them."""
        self.table = PartitionTable(self.catalog, self.hand.runtime, ME, 7, recovery_points or {}, self._note)
        if is_cluster:
            for broker_id in (ME, OTHER):
                listeners = {"kafka": Address(f"host-{broker_id}", 9092)}
                broker = BrokerRegistration(
                    broker_id, broker_id, f"run-{broker_id}", listeners, is_fenced=False
                )
                self.catalog.apply(BrokerSaved(broker))

    def _note(self, partition: Partition) -> None:
        self.roles.append((partition.index, partition.is_leader, partition.leader_epoch))

    def save_topic(self, partitions: int) -> None:
        topic = Topic(TOPIC_ID, "t", partitions, {}, False, 1)
        self.catalog.apply(TopicSaved(topic))
        run_unsliced(self.table.open_topic(topic))

    def place(self, index: int, *replicas: int, leader: int, epoch: int = 0) -> None:
        isr = (leader,) if leader != NO_LEADER else ()
        placed = PartitionReplicas(TOPIC_ID, index, replicas, isr, leader, epoch)
        self.catalog.apply(PartitionSaved(placed))
        run_unsliced(self.table.place(placed))


def test_a_single_node_leads_all_partitions_in_the_epoch_of_its_run() -> None:
    async def scenario() -> None:
        scene = Scene(is_cluster=False)
        scene.save_topic(2)
        assert [scene.table.get("t", index).leader_epoch for index in range(2)] == [7, 7]
        assert scene.table.leader_of("t", 1) == ME
        with pytest.raises(UnknownTopic):
            scene.table.get("t", 2)
        with pytest.raises(UnknownTopic):
            scene.table.leader_of("t", 2)

    run(scenario)


def test_a_node_leads_what_is_placed_on_it_once_it_has_joined() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.save_topic(2)
        scene.place(0, ME, leader=ME, epoch=3)
        scene.place(1, OTHER, leader=OTHER, epoch=4)
        with pytest.raises(LeaderNotAvailable, match="not an active member"):
            scene.table.get("t", 0)
        scene.table.set_active(is_active=True)
        assert scene.table.get("t", 0).leader_epoch == 3
        assert scene.table.get(TOPIC_ID, 0) is scene.table.get("t", 0)
        with pytest.raises(NotLeader, match="broker 2") as refused:
            scene.table.get("t", 1)
        found = refused.value
        assert (found.leader_id, found.leader_epoch, found.leader_address) == (2, 4, ("host-2", 9092))
        assert [one.index for one in scene.table.all()] == [0], "the other one is not opened here"
        scene.table.set_active(is_active=False)
        assert scene.roles[-2:] == [(0, True, 3), (0, False, 3)]

    run(scenario)


def test_leadership_follows_the_epochs_of_metadata() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.table.set_active(is_active=True)
        scene.save_topic(1)
        scene.place(0, ME, leader=ME, epoch=1)
        scene.place(0, ME, leader=NO_LEADER, epoch=2)
        with pytest.raises(LeaderNotAvailable, match="none of its brokers"):
            scene.table.get("t", 0)
        scene.place(0, ME, leader=ME, epoch=3)
        scene.place(0, ME, leader=ME, epoch=3)
        assert scene.roles == [(0, True, 1), (0, False, 2), (0, True, 3)]

    run(scenario)


def test_a_partition_that_moved_away_is_closed_and_its_files_are_removed() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.table.set_active(is_active=True)
        scene.save_topic(2)
        for index in range(2):
            scene.place(index, ME, leader=ME)
            scene.table.get("t", index).append(scene.hand.batch())
        outcomes: list[object] = []
        scene.table.get("t", 1).when_committed(99, outcomes.append)
        scene.place(1, OTHER, leader=OTHER, epoch=1)
        await turns()
        assert scene.hand.files.names(f"{TOPICS_DIRECTORY}/{TOPIC_ID.hex()}") == ["0"]
        assert isinstance(outcomes[0], NotLeader)
        with pytest.raises(NotLeader):
            scene.table.get("t", 1)

    run(scenario)


def test_a_snapshot_may_name_the_placement_before_the_topic() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.table.set_active(is_active=True)
        scene.place(0, ME, leader=ME, epoch=5)
        scene.save_topic(1)
        assert scene.table.get("t", 0).leader_epoch == 5

    run(scenario)


def test_a_deleted_topic_leaves_no_files() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.table.set_active(is_active=True)
        scene.save_topic(1)
        scene.place(0, ME, leader=ME)
        scene.table.get("t", 0).append(scene.hand.batch())
        run_unsliced(scene.table.drop_topic("t"))
        await turns()
        assert scene.hand.files.names(TOPICS_DIRECTORY) == [] and not scene.table.is_open("t")
        assert scene.roles[-1] == (0, False, 0)

    run(scenario)


def test_a_node_that_is_fenced_while_it_stops_commits_nothing_more() -> None:
    async def scenario() -> None:
        hand = Hand()
        scene = Scene(hand=hand)
        scene.table.set_active(is_active=True)
        scene.save_topic(1)
        scene.place(0, ME, leader=ME, epoch=1)
        partition = scene.table.get("t", 0)
        waiter = append(hand, partition)
        stopping = asyncio.ensure_future(scene.table.stop())
        await turns()
        scene.place(0, ME, leader=NO_LEADER, epoch=2)
        assert not partition.is_leader and scene.roles[-1] == (0, False, 2)
        await hand.workers.do_all()
        await stopping
        assert partition.high_watermark == 0 and partition.end_offset == 1
        assert not waiter.is_acknowledged, "the next leader may not have it"

    run(scenario)


def test_a_copy_that_was_set_aside_before_a_kill_begins_again() -> None:
    async def scenario() -> None:
        directory = f"{TOPICS_DIRECTORY}/{TOPIC_ID.hex()}/0"
        scene = Scene(recovery_points={directory: 5})
        placed = PartitionReplicas(TOPIC_ID, 0, (ME, OTHER), (OTHER,), OTHER, adding=(ME,), removing=(OTHER,))
        scene.catalog.apply(TopicSaved(Topic(TOPIC_ID, "t", 1, {}, False, 1)))
        scene.catalog.apply(PartitionSaved(placed))
        run_unsliced(scene.table.open_topic(scene.catalog.topic("t")))
        (copy,) = scene.table.all()
        assert (copy.failure, copy.end_offset) == (None, 0)

    run(scenario)
