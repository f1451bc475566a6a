"""Bugs that are planted in what followers and leaders of replicas do: found by directed scenes, and by seeds where many
of them come to it.

`test_replica_bugs` and `test_cluster_bugs` have the bugs that only random runs find.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from penstock.core.errors import BrokerError, OffsetOutOfRange
from penstock.core.log import replicated
from penstock.core.log.log import Log
from penstock.core.machines.cluster import partition_state
from penstock.core.machines.cluster.events import ClusterEvent
from penstock.core.machines.cluster.partition_state import IsrChange
from penstock.core.machines.cluster.state import ClusterState
from penstock.core.machines.cluster.transition import Prospect, changed
from penstock.core.model import NO_EPOCH
from penstock.core.records.batch import BatchHeader, decode_header
from penstock.core.replication.fetches import ReplicaFetch, ReplicatedBatches
from penstock.core.replication.tracker import FollowerFetch, ReplicaTracker
from penstock.node.replicas import leading as leading_module
from penstock.node.replicas import partition_table as table_module
from penstock.node.replicas import replica as replica_module
from penstock.node.replicas.fetch_session import FetchFlight, FetchSession
from penstock.node.replicas.fetcher import ReplicaFetcher
from penstock.node.replicas.followed import FollowedPartition
from penstock.node.replicas.offset_waits import OffsetWaits
from penstock.node.replicas.partition import Partition
from penstock.node.replicas.partition_table import PartitionTable
from penstock.node.replicas.replica import Replica
from penstock.node.replicas.scrub import Scrub
from sim import copy_scenes
from sim import test_new_leaders as new_leaders
from sim import test_replicas as replicas
from sim.cluster_faults import DAMAGE
from sim.cluster_scene import simulate
from sim.ledger import Broken

SEEDS = range(20)

Plant = Callable[[pytest.MonkeyPatch], None]


# -- what a follower applies


def truncates_only_for_another_leader(patch: pytest.MonkeyPatch) -> None:
    """M5: a follower takes the same leader for the same log, although there was another one in between."""
    wanted, apply = FollowedPartition.wanted, FollowedPartition.apply
    copied_from: dict[Replica, int] = {}

    def wanted_of_leader(self: FollowedPartition, bytes_max: int) -> ReplicaFetch:
        found = wanted(self, bytes_max)
        is_same = copied_from.get(self.partition) == self.leader_id
        return found._replace(last_fetched_epoch=NO_EPOCH) if is_same else found

    async def apply_and_note(self: FollowedPartition, fetch: ReplicaFetch, got: ReplicatedBatches) -> None:
        await apply(self, fetch, got)
        if got.error is None and got.diverging is None:
            copied_from[self.partition] = self.leader_id

    patch.setattr(FollowedPartition, "wanted", wanted_of_leader)
    patch.setattr(FollowedPartition, "apply", apply_and_note)


def applies_answers_of_any_time(patch: pytest.MonkeyPatch) -> None:
    """M6: whatever epoch and offset they were asked for. Sessions have to let them pass as well."""
    arrive = ReplicaFetcher._arrive

    def arrive_in_session(self: ReplicaFetcher, flight: FetchFlight, outcome: Any) -> None:
        arrive(self, flight._replace(session=self._session), outcome)

    def answered(self: FetchSession, flight: FetchFlight, partition: Any) -> ReplicaFetch | None:
        known = self._named.get(partition)
        return None if known is None else known.wanted

    patch.setattr(ReplicaFetcher, "_arrive", arrive_in_session)
    patch.setattr(FetchSession, "answered", answered)
    patch.setattr(FollowedPartition, "_is_current", lambda self, offset, leader_epoch: not self.is_over)


def copies_without_a_look_at_checksums(patch: pytest.MonkeyPatch) -> None:
    """M6, L15: a follower appends whatever bytes arrive."""
    patch.setattr(replica_module, "check", decode_header)


def copies_from_later_epochs(patch: pytest.MonkeyPatch) -> None:
    """M6: a follower appends batches of an epoch that it has not heard of."""

    def append(
        log: Log, gaps_before: int, batch: Any, header: BatchHeader, leader_epoch: int, now_ms: int
    ) -> int:
        epoch = max(header.leader_epoch, leader_epoch)
        return replicated.append_replicated(log, gaps_before, batch, header, epoch, now_ms)

    patch.setattr(replica_module, "append_replicated", append)


def ignores_a_gap(patch: pytest.MonkeyPatch) -> None:
    """I2: a follower appends behind records that it does not have."""

    def append(log: Log, gaps_before: int, batch: Any, header: BatchHeader, *rest: int) -> int:
        return replicated.append_replicated(log, header.base_offset, batch, header, *rest)

    patch.setattr(replica_module, "append_replicated", append)


def refuses_sequences_as_a_follower(patch: pytest.MonkeyPatch) -> None:
    """M20: the leader has decided, and may know less of a producer than its followers."""
    append = Replica.append_replicated

    def append_in_order(self: Replica, batch: memoryview, gaps_before: int = 0) -> int:
        self.log.producers.check(decode_header(batch))
        return append(self, batch, gaps_before)

    patch.setattr(Replica, "append_replicated", append_in_order)


def trusts_snapshots_of_producers(patch: pytest.MonkeyPatch) -> None:
    """M20: the state of producers after a truncation is that of the last snapshot, without the batches since."""

    def load_only(self: Log, now_ms: int) -> None:
        self.producers.load(self.end_offset)

    patch.setattr(Log, "rebuild_producers", load_only)


# -- who is in sync


def commits_over_the_smaller_proposal(patch: pytest.MonkeyPatch) -> None:
    """I6, L5: who is to leave the ISR may still be the one that leads next."""
    arrange = ReplicaTracker._arrange

    def arrange_proposed(self: ReplicaTracker) -> None:
        arrange(self)
        if self.proposed is not None:
            members = [one.broker_id for one in self.proposed.isr]
            self._maximal = tuple(one for one in self._maximal if one in members)

    patch.setattr(ReplicaTracker, "_arrange", arrange_proposed)


def admits_fenced_and_stopping_brokers(patch: pytest.MonkeyPatch) -> None:
    """L6: leader and metadata take whoever has fetched for a member that runs."""

    def is_eligible(self: ReplicaTracker, broker_id: int, fetch: FollowerFetch) -> bool:
        registered = self._brokers.find_broker(broker_id)
        return registered is not None and registered.epoch == fetch.broker_epoch

    def decide(
        cluster: ClusterState, sender: int, sender_epoch: int, wanted: IsrChange
    ) -> list[ClusterEvent]:
        cluster.broker(sender, sender_epoch)
        present, members = cluster.partition(wanted.partition), [one.broker_id for one in wanted.isr]
        partition_state._check_epochs(present, sender, wanted)
        isr = tuple(one for one in present.replicas if one in members)
        after = present._replace(isr=isr, is_recovering=wanted.is_recovering)
        return [*changed(present, after, Prospect(cluster, active=members))]

    patch.setattr(ReplicaTracker, "_is_eligible", is_eligible)
    patch.setattr(leading_module, "decide_change_isr", decide)


def keeps_stopping_brokers_in_the_isr(patch: pytest.MonkeyPatch) -> None:
    """M8: what is committed waits for a broker that stops."""
    patch.setattr(
        Prospect,
        "can_lead",
        lambda self, broker_id: broker_id in self.stopping or not self.is_fenced(broker_id),
    )


# -- what clients are told


def resets_readers_behind_the_watermark(patch: pytest.MonkeyPatch) -> None:
    """M12: a new leader does not know yet what is committed, and takes a position for wrong."""
    read = Partition.read

    def read_committed_only(self: Partition, offset: int, bytes_max: int, *rest: Any) -> Any:
        if offset > self.high_watermark:
            raise OffsetOutOfRange(f"offset {offset} is behind {self.high_watermark}")
        return read(self, offset, bytes_max, *rest)

    patch.setattr(Partition, "read", read_committed_only)


def tells_the_current_epoch(patch: pytest.MonkeyPatch) -> None:
    """M13: of a record that was written in an earlier one."""
    patch.setattr(Partition, "epoch_at", lambda self, offset: self.leader_epoch)


def leaves_producers_waiting(patch: pytest.MonkeyPatch) -> None:
    """M14: until their own time is over."""
    follow = Replica.follow

    def follow_only(self: Replica, epoch: int) -> None:
        with pytest.MonkeyPatch.context() as silent:
            silent.setattr(OffsetWaits, "fail", lambda self, error, after=-1: None)
            follow(self, epoch)

    patch.setattr(Replica, "follow", follow_only)


def judges_without_followers(patch: pytest.MonkeyPatch) -> None:
    """M27: a leader that may have been replaced takes what it knows for the present."""
    patch.setattr(Replica, "check_followed", lambda self, *, trusts_new=False: None)


# -- damage


def opens_damaged_logs_as_shorter_ones(patch: pytest.MonkeyPatch) -> None:
    """L15: a start cuts off what is behind a damaged batch, although other replicas have it."""
    patch.setattr(PartitionTable, "_is_shared", lambda self, topic, index: False)


def compares_nothing(patch: pytest.MonkeyPatch) -> None:
    """M29: nobody reads back what was written, so that damage is found when it is too late."""

    async def pause(self: Scrub, topic: str | None) -> None:
        return

    patch.setattr(Scrub, "_round", pause)


def accepts_records_while_it_hands_over(patch: pytest.MonkeyPatch) -> None:
    """The next leader lacks what producers were told of by the last one; only with acks=1, because a commit takes
    both."""
    patch.setattr(Replica, "set_writable", lambda self, *, is_writable: None)


# -- directories


def deletes_replicas_of_others_at_start(patch: pytest.MonkeyPatch) -> None:
    """M10: what metadata places elsewhere is deleted and not set aside."""
    remove_leftovers = PartitionTable.remove_leftovers

    def remove_more(self: PartitionTable, removed: set[bytes]) -> None:
        files = self._runtime.files
        for directory in table_module.stray_directories(
            files, table_module.TOPICS_DIRECTORY, self._catalog.cluster, self._node_id
        ):
            files.remove_dir(directory)
        remove_leftovers(self, removed)

    patch.setattr(PartitionTable, "remove_leftovers", remove_more)


def deletes_unknown_topics_at_start(patch: pytest.MonkeyPatch) -> None:
    """M10: what metadata does not name is taken for deleted."""
    remove_leftovers = PartitionTable.remove_leftovers

    def remove_all(self: PartitionTable, removed: set[bytes]) -> None:
        names = self._runtime.files.names(table_module.TOPICS_DIRECTORY)
        remove_leftovers(self, {bytes.fromhex(name) for name in names})

    patch.setattr(PartitionTable, "remove_leftovers", remove_all)


DIRECTED: list[tuple[Plant, str]] = [
    (truncates_only_for_another_leader, "leader there and back"),
    (applies_answers_of_any_time, "answer over elections"),
    (copies_without_a_look_at_checksums, "flipped bit in an answer"),
    (copies_from_later_epochs, "later epoch in an answer"),
    (ignores_a_gap, "missing batch in an answer"),
    (refuses_sequences_as_a_follower, "producer that the leader forgot"),
    (commits_over_the_smaller_proposal, "shrink without an outcome"),
    (leaves_producers_waiting, "producer at a leader that is replaced"),
    (deletes_replicas_of_others_at_start, "replica left behind"),
    (deletes_unknown_topics_at_start, "replica left behind"),
]
BY_TESTS: list[tuple[Plant, Callable[[], None]]] = [
    (
        resets_readers_behind_the_watermark,
        new_leaders.test_a_reader_that_has_seen_more_waits_and_is_not_reset,
    ),
    (tells_the_current_epoch, new_leaders.test_epochs_are_those_of_records),
    (judges_without_followers, replicas.test_a_leader_that_nobody_follows_does_not_tell_where_its_log_ends),
    (judges_without_followers, replicas.test_a_leader_that_nobody_follows_does_not_judge_sequences),
    (
        accepts_records_while_it_hands_over,
        replicas.test_replicas_are_added_and_removed_while_records_are_written,
    ),
]
"""Bugs that tests of one behaviour find."""
RANDOM: list[tuple[Plant, Sequence[str]]] = [
    (trusts_snapshots_of_producers, ("kill", "pause")),
    (admits_fenced_and_stopping_brokers, ("expired session", "cut from the store")),
    (admits_fenced_and_stopping_brokers, ("stop",)),
    (keeps_stopping_brokers_in_the_isr, ("stop",)),
    (opens_damaged_logs_as_shorter_ones, (DAMAGE, "kill")),
    (compares_nothing, (DAMAGE,)),
]


@pytest.mark.parametrize("name", copy_scenes.SCENES)
@pytest.mark.parametrize("seed", range(3))
def test_a_scene_holds(name: str, seed: int) -> None:
    copy_scenes.play(name, seed)


@pytest.mark.parametrize(("plant", "scene"), DIRECTED)
def test_a_planted_bug_is_found_by_its_scene(
    plant: Plant, scene: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((Broken, AssertionError, BrokerError, TimeoutError)) as found:
        copy_scenes.play(scene)
    assert "simulation of seed" in "".join(found.value.__notes__)


@pytest.mark.parametrize(("plant", "test"), BY_TESTS)
def test_a_planted_bug_is_found_by_a_test(
    plant: Plant, test: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((AssertionError, BrokerError, pytest.fail.Exception)):
        test()


@pytest.mark.parametrize(("plant", "faults"), RANDOM)
def test_a_planted_bug_is_found_by_seeds(
    plant: Plant, faults: Sequence[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    with pytest.raises((Broken, BrokerError)) as found:
        for seed in SEEDS:
            simulate(seed, *faults, is_crowded=True)
    assert "simulation of seed" in "".join(found.value.__notes__)
