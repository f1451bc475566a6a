"""What the leader of a partition takes for committed, whom it takes for in sync, and which changes it asks for."""

from __future__ import annotations

import pytest

from cluster_play import ClusterPlay
from penstock.core.errors import NotLeader
from penstock.core.machines.cluster.brokers import decide_stop
from penstock.core.machines.cluster.partition_state import IsrChange, IsrMember, decide_change_isr
from penstock.core.machines.cluster.reassignment import decide_reassign
from penstock.core.machines.cluster.values import PartitionReplicas
from penstock.core.replication.tracker import NEAR_S_MAX, NOTHING, FollowerFetch, ReplicaTracker

LAG_S = 30.0


class Stage:
    """A partition led by broker 1, and what its leader is told."""

    def __init__(self, replicas: list[int], target: list[int] | None = None, epoch_start: int = 0) -> None:
        self.play = ClusterPlay(4)
        self.play.create("orders", replicas)
        if target is not None:
            self.play.run(decide_reassign(self.play.cluster, self.placed.id, target))
        self.now_s = 100.0
        self.tracker = ReplicaTracker(self.placed, epoch_start, self.play.cluster, self.now_s)

    @property
    def placed(self) -> PartitionReplicas:
        return self.play.partition("orders")

    def fetch(self, broker_id: int, offset: int, *, end: int | None = None, start: int = 0) -> None:
        fetch = FollowerFetch(self.play.epoch(broker_id), offset, start)
        self.tracker.note_fetch(broker_id, fetch, offset if end is None else end, self.now_s)

    def wanted(self, high_watermark: int = 0, end: int = 0) -> IsrChange | None:
        return self.tracker.wanted_change(self.play.epoch(1), high_watermark, end, self.now_s, LAG_S)

    def wanted_isr(self, high_watermark: int = 0, end: int = 0) -> list[int] | None:
        change = self.wanted(high_watermark, end)
        return None if change is None else [one.broker_id for one in change.isr]

    def committable(self, flushed: int, minimum: int = 2) -> int:
        return self.tracker.committable(flushed, minimum, self.now_s)

    def make(self, change: IsrChange | None) -> None:
        """The metadata log accepts the change."""
        assert change is not None
        self.play.run(decide_change_isr(self.play.cluster, 1, self.play.epoch(1), change))
        if self.placed.leader_epoch == self.tracker.placed.leader_epoch:
            self.tracker.adopt(self.placed)

    def fence(self, broker_id: int) -> None:
        self.play.fence(broker_id)
        self.tracker.adopt(self.placed)


# -- what is committed


def test_committed_is_what_every_in_sync_replica_has_flushed() -> None:
    stage = Stage([1, 2, 3])
    assert stage.committable(10) == NOTHING, "nobody has fetched in this epoch"
    stage.fetch(2, 7)
    assert stage.committable(10) == NOTHING, "broker 3 has not"
    stage.fetch(3, 9)
    assert stage.committable(10) == 7
    stage.fetch(2, 12)
    assert stage.committable(10) == 9
    assert stage.committable(8) == 8, "it is not flushed here"


def test_nothing_is_committed_below_the_minimum() -> None:
    stage = Stage([1, 2, 3])
    stage.fetch(2, 10)
    stage.fetch(3, 10)
    stage.fence(2)
    assert stage.committable(10, minimum=2) == 10
    stage.fence(3)
    assert stage.committable(10, minimum=2) == NOTHING
    assert stage.committable(10, minimum=1) == 10


def test_a_minimum_above_the_number_of_replicas_means_all_of_them() -> None:
    stage = Stage([1, 2])
    stage.fetch(2, 5)
    assert stage.committable(10, minimum=3) == 5


def test_replicas_that_are_being_added_do_not_count_for_the_minimum() -> None:
    stage = Stage([1, 2], target=[1, 2, 3])
    for broker_id in (2, 3):
        stage.fetch(broker_id, 10)
    stage.fence(2)
    assert stage.committable(10, minimum=2) == NOTHING
    assert stage.tracker.isr_size == 1


def test_both_isrs_count_while_the_outcome_of_a_change_is_unknown() -> None:
    stage = Stage([1, 2, 3])
    stage.fetch(2, 10)
    stage.now_s += LAG_S + 1
    stage.fetch(2, 20)
    change = stage.wanted(high_watermark=0, end=20)
    assert change is not None and [one.broker_id for one in change.isr] == [1, 2]
    stage.tracker.propose(change)
    assert stage.committable(20) == NOTHING, "broker 3 may still elect itself"
    assert stage.wanted() is None, "one change at a time"
    stage.tracker.propose(None)
    stage.make(stage.wanted(end=20))
    assert stage.committable(20) == 20


def test_a_replica_that_is_joining_counts_before_it_is_told_so() -> None:
    stage = Stage([1, 2, 3])
    for broker_id in (2, 3):
        stage.fetch(broker_id, 10)
    stage.fence(3)
    stage.play.restart(3, 3, is_clean=True)
    stage.tracker.adopt(stage.placed)
    stage.fetch(3, 10)
    change = stage.wanted(high_watermark=10, end=10)
    assert change is not None and [one.broker_id for one in change.isr] == [1, 2, 3]
    stage.tracker.propose(change)
    stage.now_s += 10 * NEAR_S_MAX
    stage.fetch(2, 15)
    assert stage.committable(15) == 10, "the change may have taken effect, and broker 3 may be elected"


def test_a_proposal_of_an_earlier_state_counts_no_more() -> None:
    stage = Stage([1, 2, 3])
    stage.fetch(2, 10)
    stage.now_s += LAG_S + 1
    stage.tracker.propose(stage.wanted(end=20))
    stage.fence(3)
    assert stage.tracker.proposed is None


def test_a_replica_that_keeps_up_holds_back_what_is_committed_until_it_has_joined() -> None:
    """Under load, the end of the log moves with every fetch: it would never have all that is committed."""
    stage = Stage([1], target=[1, 2])
    stage.fetch(2, 10, end=15)
    stage.now_s += 0.01
    stage.fetch(2, 15, end=20)
    assert stage.committable(20, minimum=1) == 15
    assert stage.wanted_isr(high_watermark=15, end=20) == [1, 2]
    stage.now_s += NEAR_S_MAX + 0.1
    assert stage.committable(20, minimum=1) == 20, "it has fallen silent"


def test_a_fenced_or_stopping_replica_holds_nothing_back() -> None:
    stage = Stage([1, 2, 3])
    for broker_id in (2, 3):
        stage.fetch(broker_id, 10)
    stage.play.run(decide_stop(stage.play.cluster, 3, stage.play.epoch(3)))
    stage.tracker.adopt(stage.placed)
    stage.fetch(2, 20)
    stage.fetch(3, 15, end=20)
    assert stage.committable(20) == 20


def test_a_move_of_the_leader_does_not_hold_back_what_is_committed() -> None:
    stage = Stage([1], target=[2])
    stage.fetch(2, 10, end=15)
    assert stage.committable(15, minimum=1) == 15


# -- who is in sync


def test_a_follower_that_has_everything_that_is_committed_is_in_sync() -> None:
    stage = Stage([1], target=[2])
    assert not stage.tracker.is_in_sync(2, 0), "it has not fetched in this epoch"
    stage.fetch(2, 9)
    assert not stage.tracker.is_in_sync(2, 10)
    stage.fetch(2, 10)
    assert stage.tracker.is_in_sync(2, 10)


def test_a_follower_must_reach_the_start_of_the_epoch() -> None:
    stage = Stage([1], target=[2], epoch_start=12)
    stage.fetch(2, 11)
    assert not stage.tracker.is_in_sync(2, 5), "the high watermark of a new leader may be old"
    stage.fetch(2, 12)
    assert stage.tracker.is_in_sync(2, 5)


def test_a_follower_that_is_fenced_stopping_or_restarted_is_not() -> None:
    stage = Stage([1], target=[2])
    stage.fetch(2, 10)
    stage.play.run(decide_stop(stage.play.cluster, 2, stage.play.epoch(2)))
    assert not stage.tracker.is_in_sync(2, 10)
    stage.play.restart(2, 2, is_clean=True)
    assert not stage.tracker.is_in_sync(2, 10), "its disk may be empty now"
    stage.fetch(2, 10)
    assert stage.tracker.is_in_sync(2, 10)
    stage.play.fence(2)
    assert not stage.tracker.is_in_sync(2, 10)


def test_a_broker_without_a_replica_is_refused() -> None:
    stage = Stage([1], target=[2])
    with pytest.raises(NotLeader, match="broker 3 holds no replica"):
        stage.fetch(3, 10)


def test_a_follower_that_lags_for_too_long_leaves() -> None:
    stage = Stage([1, 2, 3])
    stage.fetch(2, 10)
    stage.fetch(3, 10)
    stage.now_s += 0.9 * LAG_S
    stage.fetch(2, 20)
    stage.fetch(3, 12, end=20)
    assert stage.wanted_isr(high_watermark=10, end=20) is None
    stage.now_s += 0.2 * LAG_S
    assert stage.wanted_isr(high_watermark=10, end=20) == [1, 2]
    assert stage.wanted_isr(high_watermark=10, end=12) is None, "whoever has everything does not lag"


def test_a_follower_that_is_busy_but_keeps_up_stays() -> None:
    """It is never at the end of a log that grows with every fetch, but reaches where the end was before."""
    stage = Stage([1, 2])
    for step in range(1, 10):
        stage.fetch(2, 10 * (step - 1), end=10 * step)
        stage.now_s += 0.5 * LAG_S
    assert stage.wanted_isr(end=90) is None


def test_a_follower_that_never_fetched_leaves_in_the_end() -> None:
    stage = Stage([1, 2, 3])
    stage.fetch(2, 0)
    assert stage.wanted_isr() is None
    stage.now_s += LAG_S + 1
    assert stage.wanted_isr() == [1, 2]


def test_a_leader_that_nobody_follows_may_have_been_replaced() -> None:
    stage = Stage([1, 2, 3])
    stage.fetch(2, 0)
    assert not stage.tracker.is_followed(stage.now_s, 3.0)
    assert stage.tracker.is_followed(stage.now_s + 2.9, 3.0, trusts_new=True)
    assert not stage.tracker.is_followed(stage.now_s + 3.1, 3.0, trusts_new=True)
    stage.fetch(3, 0)
    assert stage.tracker.is_followed(stage.now_s + 2.9, 3.0)
    assert not stage.tracker.is_followed(stage.now_s + 3.1, 3.0)
    stage.fence(2)
    stage.fence(3)
    assert stage.tracker.is_followed(stage.now_s + 100, 3.0), "nobody else can have taken over"


# -- changes


def test_whoever_has_caught_up_joins_in_the_order_of_the_replicas() -> None:
    stage = Stage([1, 3, 2])
    for broker_id in (2, 3):
        stage.fence(broker_id)
        stage.play.restart(broker_id, broker_id, is_clean=True)
    stage.tracker.adopt(stage.placed)
    for broker_id in (2, 3):
        stage.fetch(broker_id, 10)
    assert stage.placed.isr == (1,)
    change = stage.wanted(high_watermark=10, end=10)
    assert change is not None
    assert list(change.isr) == [IsrMember(one, stage.play.epoch(one)) for one in (1, 3, 2)]
    stage.make(change)
    assert stage.placed.isr == (1, 3, 2) and stage.wanted() is None


def test_a_replica_that_registered_again_is_not_admitted_by_a_late_change() -> None:
    stage = Stage([1], target=[1, 2])
    stage.fetch(2, 10)
    change = stage.wanted(high_watermark=10, end=10)
    assert change is not None
    stage.play.restart(2, 2, is_clean=True)
    with pytest.raises(Exception, match="registered again"):
        stage.make(change)


def test_a_leader_that_recovers_confirms_its_log_first() -> None:
    stage = Stage([1, 2])
    stage.tracker.placed = stage.tracker.placed._replace(isr=(1,), is_recovering=True)
    stage.fetch(2, 10)
    change = stage.wanted(high_watermark=0, end=10)
    assert change is not None and not change.is_recovering
    assert [one.broker_id for one in change.isr] == [1]


def test_equal_means_the_same_start_and_the_same_end() -> None:
    stage = Stage([1], target=[2])
    assert not stage.tracker.are_equal(0, 0)
    stage.fetch(2, 10, start=3)
    assert stage.tracker.are_equal(3, 10)
    assert not stage.tracker.are_equal(3, 11) and not stage.tracker.are_equal(4, 10)


def test_equal_includes_the_replicas_that_stay() -> None:
    stage = Stage([1, 2], target=[2, 3])
    stage.fetch(3, 10)
    stage.fetch(2, 9)
    assert not stage.tracker.are_equal(0, 10), "broker 2 leads next"
    stage.fetch(2, 10)
    assert stage.tracker.are_equal(0, 10)


def test_the_change_that_completes_a_move_is_accepted_and_moves_the_leader() -> None:
    stage = Stage([1], target=[2])
    assert stage.wanted(high_watermark=10) is None
    stage.fetch(2, 10)
    change = stage.wanted(high_watermark=10, end=10)
    assert change is not None and stage.tracker.moves_leader(change)
    stage.make(change)
    assert stage.placed.replicas == (2,) and stage.placed.leader == 2


def test_a_move_that_keeps_the_leader_needs_no_pause() -> None:
    stage = Stage([1, 2], target=[1, 3])
    stage.fetch(2, 10)
    stage.fetch(3, 10)
    change = stage.wanted(high_watermark=10, end=10)
    assert change is not None and not stage.tracker.moves_leader(change)
    stage.make(change)
    assert stage.placed.replicas == (1, 3) and stage.placed.leader == 1


def test_nothing_is_asked_for_if_nothing_changes() -> None:
    stage = Stage([1, 2])
    stage.fetch(2, 10)
    assert stage.wanted(high_watermark=10, end=10) is None
