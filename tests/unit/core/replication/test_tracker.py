"""When the leader of a partition takes a follower for in sync, and which change it asks for."""

from __future__ import annotations

import pytest

from cluster_play import ClusterPlay
from penstock.core.errors import NotLeader
from penstock.core.machines.cluster.brokers import decide_stop
from penstock.core.machines.cluster.partition_state import IsrMember, decide_change_isr
from penstock.core.machines.cluster.reassignment import decide_reassign
from penstock.core.replication.tracker import FollowerFetch, ReplicaTracker


def moving(epoch_start: int = 0) -> tuple[ClusterPlay, ReplicaTracker]:
    """A partition on its way from broker 1 to broker 2."""
    play = ClusterPlay(3)
    play.create("orders", [1])
    play.run(decide_reassign(play.cluster, play.partition("orders").id, [2]))
    return play, ReplicaTracker(play.partition("orders"), epoch_start)


def fetch(play: ClusterPlay, offset: int, start_offset: int = 0) -> FollowerFetch:
    return FollowerFetch(play.epoch(2), offset, start_offset)


def test_a_follower_that_has_everything_that_is_committed_is_in_sync() -> None:
    play, tracker = moving()
    assert not tracker.is_in_sync(2, 0, play.cluster), "it has not fetched in this epoch"
    tracker.note_fetch(2, fetch(play, 9))
    assert not tracker.is_in_sync(2, 10, play.cluster)
    tracker.note_fetch(2, fetch(play, 10))
    assert tracker.is_in_sync(2, 10, play.cluster)


def test_a_follower_must_reach_the_start_of_the_epoch() -> None:
    play, tracker = moving(epoch_start=12)
    tracker.note_fetch(2, fetch(play, 11))
    assert not tracker.is_in_sync(2, 5, play.cluster), "the high watermark of a new leader may be old"
    tracker.note_fetch(2, fetch(play, 12))
    assert tracker.is_in_sync(2, 5, play.cluster)


def test_a_follower_that_is_fenced_stopping_or_restarted_is_not() -> None:
    play, tracker = moving()
    tracker.note_fetch(2, fetch(play, 10))
    play.run(decide_stop(play.cluster, 2, play.epoch(2)))
    assert not tracker.is_in_sync(2, 10, play.cluster)
    play.restart(2, 2, is_clean=True)
    assert not tracker.is_in_sync(2, 10, play.cluster), "its disk may be empty now"
    tracker.note_fetch(2, fetch(play, 10))
    assert tracker.is_in_sync(2, 10, play.cluster)
    play.fence(2)
    assert not tracker.is_in_sync(2, 10, play.cluster)


def test_a_broker_without_a_replica_is_refused() -> None:
    play, tracker = moving()
    with pytest.raises(NotLeader, match="broker 3 holds no replica"):
        tracker.note_fetch(3, fetch(play, 10))


def test_equal_means_the_same_start_and_the_same_end() -> None:
    play, tracker = moving()
    assert not tracker.are_equal(0, 0)
    tracker.note_fetch(2, fetch(play, 10, start_offset=3))
    assert tracker.are_equal(3, 10)
    assert not tracker.are_equal(3, 11) and not tracker.are_equal(4, 10)


def test_the_change_that_completes_a_move_is_accepted() -> None:
    play, tracker = moving()
    leader_epoch = play.epoch(1)
    assert tracker.expansion(leader_epoch, 10, play.cluster) is None
    tracker.note_fetch(2, fetch(play, 10))
    change = tracker.expansion(leader_epoch, 10, play.cluster)
    assert change is not None
    assert list(change.isr) == [IsrMember(1, leader_epoch), IsrMember(2, play.epoch(2))]
    play.run(decide_change_isr(play.cluster, 1, leader_epoch, change))
    assert play.partition("orders").replicas == (2,) and play.partition("orders").leader == 2


def test_nothing_is_asked_for_if_nothing_moves() -> None:
    play = ClusterPlay(2)
    play.create("orders", [1])
    tracker = ReplicaTracker(play.partition("orders"), 0)
    assert tracker.expansion(play.epoch(1), 0, play.cluster) is None
