"""The simulated cluster finds bugs that were planted in its brokers, each of them by some seed out of a few."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from penstock.core.errors import BrokerError
from penstock.core.limits import PRODUCER_IDS_BLOCK
from penstock.core.machines.catalog import catalog as catalog_module
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event, ProducerIdsReserved
from penstock.core.machines.cluster import brokers as brokers_module
from penstock.core.machines.cluster.brokers import RegistrationRequest, decide_register
from penstock.core.machines.cluster.events import BrokerSaved, ClusterEvent
from penstock.core.machines.cluster.state import ClusterState
from penstock.core.machines.cluster.transition import changed_all
from penstock.core.machines.cluster.values import PartitionReplicas
from penstock.core.replication.tracker import ReplicaTracker
from penstock.node.broker import Broker
from penstock.node.cluster import membership as membership_module
from penstock.node.cluster.controller import Controller
from penstock.node.cluster.membership import ClusterMembership
from penstock.node.coordinators.shard import Shard
from penstock.node.coordinators.transaction_shard import TransactionShard
from penstock.node.replicas.led_partition import LedPartition
from penstock.node.replicas.partition import Partition
from penstock.node.replicas.partition_table import PartitionTable
from sim import cluster_scene
from sim.cluster_scene import simulate
from sim.kafka_client import KafkaError
from sim.ledger import Broken
from sim.loop import Stuck

SEEDS = range(40)
BUSY_STEPS_MAX = 70_000
"""More than a sound run takes."""

Plant = Callable[[pytest.MonkeyPatch], None]


def leads_on_when_fenced(patch: pytest.MonkeyPatch) -> None:
    assume = PartitionTable._assume_role

    def assume_never_less(self: PartitionTable, partition: Partition) -> None:
        if not partition.is_leader:
            assume(self, partition)

    patch.setattr(PartitionTable, "_assume_role", assume_never_less)


def takes_over_without_fencing(patch: pytest.MonkeyPatch) -> None:
    """Registers in the place of a process that nobody has fenced."""

    def register(cluster: ClusterState, request: RegistrationRequest) -> list[ClusterEvent]:
        present = cluster.find_broker(request.broker_id)
        if present is None or present.is_fenced:
            return decide_register(cluster, request)
        draft = cluster.draft(cluster.isr_size_min, cluster.may_elect_unclean, cluster.is_fsync)
        draft.apply(BrokerSaved(replace(present, is_fenced=True)))
        return decide_register(draft, request)

    patch.setattr(catalog_module, "decide_register", register)
    patch.setattr(membership_module, "decide_fence", lambda cluster, broker_id, epoch: [])


def does_not_raise_epochs(patch: pytest.MonkeyPatch) -> None:
    def same_epoch(partitions: Any, prospect: Any, **more: Any) -> list[Any]:
        before = {one.id: one for one in partitions}
        events = changed_all(before.values(), prospect, **more)
        return [
            event._replace(
                partition=event.partition._replace(leader_epoch=before[event.partition.id].leader_epoch)
            )
            for event in events
        ]

    patch.setattr(brokers_module, "changed_all", same_epoch)


def skips_an_event(patch: pytest.MonkeyPatch) -> None:
    """Of many events that were appended together, one is not applied."""
    follow = Broker._follow

    def follow_less(self: Broker, events: Sequence[Event]) -> Any:
        return follow(self, events if len(events) < 4 else events[:-1])

    patch.setattr(Broker, "_follow", follow_less)


def keeps_what_a_snapshot_does_not_name(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Catalog, "decide_catch_up", lambda self, snapshot: [*snapshot])


def fences_a_live_broker_for_ever(patch: pytest.MonkeyPatch) -> None:
    """It registers again at once, so the run never rests; it is given fewer steps to do so than others."""
    patch.setattr(cluster_scene, "STEPS_MAX", BUSY_STEPS_MAX)
    has_ended = Controller._has_ended
    patch.setattr(
        Controller, "_has_ended", lambda self, broker: broker.broker_id == 3 or has_ended(self, broker)
    )


def never_asks_for_another_session(patch: pytest.MonkeyPatch) -> None:
    async def give_up(self: ClusterMembership) -> None:
        await asyncio.Event().wait()

    patch.setattr(ClusterMembership, "_join_again", give_up)


def acknowledges_before_the_flush(patch: pytest.MonkeyPatch) -> None:
    when_committed = Partition.when_committed

    def at_once(self: Partition, offset: int, settled: Any, timeout_ms: int = 0) -> None:
        when_committed(self, offset, settled, timeout_ms) if self.is_internal else settled(None)

    patch.setattr(Partition, "when_committed", at_once)


def serves_without_the_replay(patch: pytest.MonkeyPatch) -> None:
    def replay_nothing(self: Shard[Any]) -> Any:
        yield 0

    patch.setattr(Shard, "_replay", replay_nothing)


def shares_a_block_of_producer_ids(patch: pytest.MonkeyPatch) -> None:
    follow = Broker._follow

    def follow_and_take(self: Broker, events: Sequence[Event]) -> Any:
        mine = [
            event._replace(owner=self.identity.node_id) if isinstance(event, ProducerIdsReserved) else event
            for event in events
        ]
        return follow(self, mine)

    patch.setattr(Broker, "_follow", follow_and_take)


def reuses_a_block_that_a_snapshot_names(patch: pytest.MonkeyPatch) -> None:
    follow = Broker._follow

    def follow_and_begin_again(self: Broker, events: Sequence[Event]) -> Any:
        yield from follow(self, events)
        for event in events:
            if isinstance(event, ProducerIdsReserved) and event.owner == self.identity.node_id:
                self._producer_ids = iter(range(event.upto - PRODUCER_IDS_BLOCK, event.upto))

    patch.setattr(Broker, "_follow", follow_and_begin_again)


def forgets_decided_transactions(patch: pytest.MonkeyPatch) -> None:
    def resume_nothing(self: TransactionShard) -> Any:
        yield 0

    patch.setattr(TransactionShard, "_resume", resume_nothing)


def hands_over_before_the_copy_is_complete(patch: pytest.MonkeyPatch) -> None:
    def has_fetched(self: ReplicaTracker, broker_id: int, high_watermark: int) -> bool:
        return self.find(broker_id) is not None

    patch.setattr(ReplicaTracker, "is_in_sync", has_fetched)
    patch.setattr(ReplicaTracker, "are_equal", lambda self, start, end: bool(self._followers))
    patch.setattr(LedPartition, "_is_near", lambda self: True)


def deletes_the_old_copy_before_the_move_is_committed(patch: pytest.MonkeyPatch) -> None:
    is_held = PartitionTable._is_held

    def is_held_by_the_target(self: PartitionTable, placed: PartitionReplicas | None) -> bool:
        if placed is not None and placed.is_moving and self._node_id in placed.removing:
            return False
        return is_held(self, placed)

    patch.setattr(PartitionTable, "_is_held", is_held_by_the_target)


KILLS = ("kill", "death inside a disk operation", "pause")
POWER = ("power loss", "death inside a disk operation", "full disk")
SESSIONS = ("expired session", "cut from the store", "pause")


@pytest.mark.parametrize(
    ("plant", "faults"),
    [
        (leads_on_when_fenced, SESSIONS),
        (takes_over_without_fencing, KILLS),
        (does_not_raise_epochs, KILLS),
        (skips_an_event, KILLS),
        (keeps_what_a_snapshot_does_not_name, ("compaction", "cut from the store")),
        (fences_a_live_broker_for_ever, ("slow disk",)),
        (never_asks_for_another_session, SESSIONS),
        (acknowledges_before_the_flush, POWER),
        (serves_without_the_replay, KILLS),
        (shares_a_block_of_producer_ids, ("slow disk",)),
        (reuses_a_block_that_a_snapshot_names, ("compaction", "cut from the store", "slow network")),
        (forgets_decided_transactions, KILLS),
        (hands_over_before_the_copy_is_complete, KILLS),
        (deletes_the_old_copy_before_the_move_is_committed, KILLS),
    ],
)
def test_a_planted_bug_is_found(
    plant: Plant, faults: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((Broken, AssertionError, KafkaError, BrokerError, Stuck)) as found:
        for seed in SEEDS:
            simulate(seed, *faults, is_crowded=True)
    assert "simulation of seed" in "".join(found.value.__notes__)
