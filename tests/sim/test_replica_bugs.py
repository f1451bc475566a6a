"""The simulated cluster finds bugs that were planted in its replication, each of them by some seed out of a few."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import pytest

from penstock.core.errors import BrokerError
from penstock.core.log.log import Log
from penstock.core.machines.catalog import catalog as catalog_module
from penstock.core.machines.cluster import brokers as brokers_module
from penstock.core.machines.cluster import partition_state, transition
from penstock.core.machines.cluster.brokers import RegistrationRequest, decide_register
from penstock.core.machines.cluster.election import Elected, elect
from penstock.core.machines.cluster.events import ClusterEvent
from penstock.core.machines.cluster.state import ClusterState
from penstock.core.machines.cluster.values import PartitionReplicas
from penstock.core.replication.tracker import NOTHING, FollowerFetch, ReplicaTracker
from penstock.node.coordinators.shard import Shard
from penstock.node.replicas import leading as leading_module
from penstock.node.replicas.followed import FollowedPartition
from penstock.node.replicas.partition import Partition
from penstock.node.replicas.repair import Repairs
from penstock.node.replicas.replica import Replica
from sim.cluster_router import Trouble
from sim.cluster_scene import simulate
from sim.kafka_client import KafkaError
from sim.ledger import Broken
from sim.loop import Stuck

SEEDS = 120

Plant = Callable[[pytest.MonkeyPatch], None]


# -- truncation


def truncates_to_the_high_watermark(patch: pytest.MonkeyPatch) -> None:
    """L1: a follower drops what it does not know to be committed, although others count on it."""
    follow = Partition.follow

    def follow_and_cut(self: Partition, epoch: int) -> None:
        is_new = epoch > self.leader_epoch
        follow(self, epoch)
        if is_new and self.failure is None and self.high_watermark < self.end_offset:
            self.truncate(self.high_watermark)

    patch.setattr(Partition, "follow", follow_and_cut)


def begins_no_epoch(patch: pytest.MonkeyPatch) -> None:
    """M4: a new leader does not note where its epoch starts."""
    patch.setattr(Log, "begin_epoch", lambda self, epoch: None)


def keeps_producers_of_truncated_batches(patch: pytest.MonkeyPatch) -> None:
    """I22: a repeated batch is taken for one that is there, although it was truncated."""
    truncate, rebuild = Log.truncate, Log.rebuild_producers

    def truncate_records_only(self: Log, offset: int, now_ms: int) -> None:
        patch.setattr(Log, "rebuild_producers", lambda self, now_ms: None)
        truncate(self, offset, now_ms)
        patch.setattr(Log, "rebuild_producers", rebuild)

    patch.setattr(Log, "truncate", truncate_records_only)


# -- commits


def commits_without_the_proposed_growth(patch: pytest.MonkeyPatch) -> None:
    """L5: over the present ISR, although a larger one may be the one that elects the next leader."""
    arrange = ReplicaTracker._arrange

    def arrange_present(self: ReplicaTracker) -> None:
        proposed, self.proposed = self.proposed, None
        arrange(self)
        self.proposed, self._others = proposed, ()

    patch.setattr(ReplicaTracker, "_arrange", arrange_present)


def commits_below_the_minimum(patch: pytest.MonkeyPatch) -> None:
    """I7: acks=all with whoever is left."""
    committable = ReplicaTracker.committable
    patch.setattr(
        ReplicaTracker,
        "committable",
        lambda self, flushed_offset, isr_size_min, now_s: committable(self, flushed_offset, 1, now_s),
    )


def commits_before_followers_fetched_in_its_epoch(patch: pytest.MonkeyPatch) -> None:
    """I7: a new leader takes those that are silent for complete."""

    def committable(self: ReplicaTracker, flushed_offset: int, isr_size_min: int, now_s: float) -> int:
        if not self.placed.is_isr_sufficient(isr_size_min):
            return NOTHING
        known = [self._followers.get(one) for one in self._maximal]
        return min([flushed_offset, *(one.fetch.offset for one in known if one is not None)])

    patch.setattr(ReplicaTracker, "committable", committable)


def commits_what_is_not_flushed_here(patch: pytest.MonkeyPatch) -> None:
    """A leader counts its own records before they are flushed, as long as the others have them."""

    def commit(self: Replica) -> None:
        if self.tracker is None:
            if not self._holds_commits:
                self.advance_high_watermark(self.flushed_offset)
            return
        offset = self.tracker.committable(self.end_offset, self.config.insync_replicas_min, self._loop.time())
        if offset > self.log.high_watermark:
            self.advance_high_watermark(offset)

    patch.setattr(Replica, "commit", commit)


def reports_what_is_not_flushed(patch: pytest.MonkeyPatch) -> None:
    """M1: a follower asks for the next records before the last ones are durable."""
    patch.setattr(FollowedPartition, "is_flushed", True)


def answers_without_a_look_at_epochs(patch: pytest.MonkeyPatch) -> None:
    """L4: the leader sends records from any offset, and counts it, whatever the replica has before it."""
    patch.setattr(leading_module, "find_divergence", lambda epochs, end_offset, fetch_offset, epoch: None)
    patch.setattr(Partition, "check_epoch", lambda self, epoch: None)


# -- members


def admits_a_broker_that_registered_again(patch: pytest.MonkeyPatch) -> None:
    """L7: what a broker had before its disk was replaced counts as what it has."""
    is_eligible = ReplicaTracker._is_eligible

    def is_eligible_still(self: ReplicaTracker, broker_id: int, fetch: FollowerFetch) -> bool:
        registered = self._brokers.find_broker(broker_id)
        epoch = fetch.broker_epoch if registered is None else registered.epoch
        return is_eligible(self, broker_id, fetch._replace(broker_epoch=epoch))

    patch.setattr(ReplicaTracker, "_is_eligible", is_eligible_still)
    patch.setattr(partition_state, "_check_eligible", lambda cluster, present, wanted: None)


def admits_whoever_has_fetched(patch: pytest.MonkeyPatch) -> None:
    """I10: a replica joins the ISR before it holds what is committed."""

    def has_fetched(self: ReplicaTracker, broker_id: int, high_watermark: int) -> bool:
        fetch = self.find(broker_id)
        return fetch is not None and self._is_eligible(broker_id, fetch)

    patch.setattr(ReplicaTracker, "is_in_sync", has_fetched)


def keeps_a_replica_that_forgot(patch: pytest.MonkeyPatch) -> None:
    """L8, I15: a replica that was not stopped in order stays a candidate, although it lost its page cache."""

    def register(cluster: ClusterState, request: RegistrationRequest) -> list[ClusterEvent]:
        present = cluster.find_broker(request.broker_id)
        epoch = request.previous_epoch if present is None else present.epoch
        return decide_register(cluster, request._replace(previous_epoch=epoch))

    patch.setattr(catalog_module, "decide_register", register)


def removes_everybody_after_a_power_loss(patch: pytest.MonkeyPatch) -> None:
    """M2: what is flushed is taken for lost too; after a power loss of all nobody may lead."""

    def register(cluster: ClusterState, request: RegistrationRequest) -> list[ClusterEvent]:
        return decide_register(cluster, request._replace(flushed_epoch=-1))

    patch.setattr(catalog_module, "decide_register", register)


def keeps_fenced_brokers_in_the_isr(patch: pytest.MonkeyPatch) -> None:
    """I16, L6: a fenced broker stays in sync."""
    patch.setattr(brokers_module, "changed_all", lambda partitions, prospect, **more: [])


# -- elections


def elects_outside_of_isr_and_elr(patch: pytest.MonkeyPatch) -> None:
    """I5, L12: any replica rather than none."""

    def elect_any(partition: PartitionReplicas, eligibility: Any, kind: Any = None) -> Elected:
        found = elect(partition, eligibility, kind)
        if found.leader < 0:
            for one in partition.replicas:
                if eligibility.can_lead(one):
                    return Elected(one)
        return found

    patch.setattr(transition, "elect", elect_any)


def forgets_the_elr(patch: pytest.MonkeyPatch) -> None:
    """I14: whoever leaves an ISR that is too small is no candidate any more; the last leader is one for ever."""

    def without_elr(
        before: PartitionReplicas, after: PartitionReplicas, isr_size_min: int, incomplete: Collection[int]
    ) -> PartitionReplicas:
        return after._replace(elr=())

    patch.setattr(transition, "_with_elr", without_elr)


def keeps_the_elr_when_the_isr_is_large_enough(patch: pytest.MonkeyPatch) -> None:
    """I14: a candidate stays one although records are committed without it."""
    patch.setattr(PartitionReplicas, "is_isr_sufficient", lambda self, isr_size_min: len(self.isr) >= 3)


def keeps_the_elr_when_the_minimum_changes(patch: pytest.MonkeyPatch) -> None:
    """M16: with the lower minimum, records are committed that the ELR does not have."""
    patch.setattr(catalog_module, "decide_follow_config", lambda *arguments, **more: [])


def completes_moves_too_early(patch: pytest.MonkeyPatch) -> None:
    """M15: before the added replicas are in sync."""

    def completed(partition: PartitionReplicas) -> PartitionReplicas:
        target = partition.target
        isr = tuple(one for one in partition.isr if one in target)
        if not partition.is_moving or not isr:
            return partition
        return partition._replace(replicas=target, isr=isr, adding=(), removing=())

    patch.setattr(transition, "_completed", completed)


# -- what else followers and leaders do


def serves_a_coordinator_too_early(patch: pytest.MonkeyPatch) -> None:
    """M18: before the new leader knows what is committed, so what it replays is not all."""
    lead = Shard.lead

    def lead_at_once(self: Shard[Any], epoch: int) -> None:
        with pytest.MonkeyPatch.context() as impatient:
            impatient.setattr(Partition, "when_committed", lambda self, offset, settled: settled(None))
            lead(self, epoch)

    patch.setattr(Shard, "lead", lead_at_once)


def does_not_resign_after_a_failed_flush(patch: pytest.MonkeyPatch) -> None:
    """M21: a leader whose disk has failed leads on, and accepts nothing."""
    patch.setattr(Repairs, "start", lambda self, partition: None)


KILLS = ("kill", "death inside a disk operation", "pause")
SESSIONS = ("expired session", "cut from the store", "pause")
POWER = ("power loss", "power loss of all", "death inside a disk operation")
SPARE = ("lost disk", "power loss of a spare", "kill")
CUTS = ("cut from brokers", "slow disk", "pause")

FIRST = {
    commits_what_is_not_flushed_here: 22,
    admits_a_broker_that_registered_again: 16,
    keeps_producers_of_truncated_batches: 99,
    serves_a_coordinator_too_early: 13,
}
"""Where to begin with bugs that few seeds find, to save time. Any change of a broker may change the seed."""
PLANTS: list[tuple[Plant, Sequence[str]]] = [
    (truncates_to_the_high_watermark, KILLS),
    (begins_no_epoch, KILLS),
    (keeps_producers_of_truncated_batches, SESSIONS),
    (commits_without_the_proposed_growth, CUTS),
    (commits_below_the_minimum, KILLS),
    (commits_before_followers_fetched_in_its_epoch, KILLS),
    (commits_what_is_not_flushed_here, POWER),
    (reports_what_is_not_flushed, POWER),
    (answers_without_a_look_at_epochs, SESSIONS),
    (admits_a_broker_that_registered_again, SPARE),
    (admits_whoever_has_fetched, KILLS),
    (keeps_a_replica_that_forgot, SPARE),
    (removes_everybody_after_a_power_loss, POWER),
    (keeps_fenced_brokers_in_the_isr, KILLS),
    (elects_outside_of_isr_and_elr, KILLS),
    (forgets_the_elr, KILLS),
    (keeps_the_elr_when_the_isr_is_large_enough, KILLS),
    (keeps_the_elr_when_the_minimum_changes, KILLS),
    (completes_moves_too_early, KILLS),
    (serves_a_coordinator_too_early, ("kill", "slow network")),
    (does_not_resign_after_a_failed_flush, ("failed sync",)),
]


@pytest.mark.parametrize(("plant", "faults"), PLANTS)
def test_a_planted_bug_is_found(plant: Plant, faults: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    with pytest.raises((Broken, AssertionError, KafkaError, BrokerError, Stuck, Trouble)) as found:
        for number in range(SEEDS):
            seed = (FIRST.get(plant, 0) + number) % SEEDS
            simulate(seed, *faults, is_crowded=True)
    assert "simulation of seed" in "".join(found.value.__notes__)
