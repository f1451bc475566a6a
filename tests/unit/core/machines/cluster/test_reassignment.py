"""Moves of partitions: copy, catch up, switch; change of mind; and what the ring proposes."""

from __future__ import annotations

import pytest

from cluster_play import ClusterPlay, topic_id
from penstock.core.errors import InvalidAssignment, NoReassignment, UnknownBroker, UnknownTopic
from penstock.core.machines.cluster.brokers import decide_drain
from penstock.core.machines.cluster.election import ElectionKind
from penstock.core.machines.cluster.events import PartitionSaved
from penstock.core.machines.cluster.partition_state import decide_elect
from penstock.core.machines.cluster.reassignment import (
    MOVES_PER_CHANGE,
    decide_cancel,
    decide_moves,
    decide_reassign,
    decide_shared,
    decide_stay,
    drain_moves,
    in_changes,
    join_moves,
    leaving,
    propose_upkeep,
    rebalance_moves,
)
from penstock.core.machines.cluster.values import NO_LEADER, PartitionReplicas
from penstock.core.model import PartitionId


def reassign(play: ClusterPlay, name: str, *target: int) -> PartitionReplicas:
    play.run(decide_reassign(play.cluster, play.partition(name).id, target))
    return play.partition(name)


def cancel(play: ClusterPlay, name: str) -> PartitionReplicas:
    play.run(decide_cancel(play.cluster, play.partition(name).id))
    return play.partition(name)


def test_one_copy_moves_once_the_new_replica_is_in_sync() -> None:
    play = ClusterPlay(2)
    play.create("orders", [1])
    moving = reassign(play, "orders", 2)
    assert (moving.replicas, moving.isr, moving.adding, moving.removing) == ((2, 1), (1,), (2,), (1,))
    assert (moving.leader, moving.leader_epoch) == (1, 0), "the leader stays while data is copied"
    assert (moving.target, moving.originals) == ((2,), (1,))
    moved = play.set_isr("orders", 1, 2)
    assert (moved.replicas, moved.isr, moved.leader, moved.is_moving) == ((2,), (2,), 2, False)
    assert (moved.leader_epoch, moved.partition_epoch) == (1, 2)


def test_a_leader_that_stays_gets_a_new_epoch_when_replicas_are_removed() -> None:
    play = ClusterPlay(3)
    play.create("orders", [1, 2])
    reassign(play, "orders", 1, 3)
    moved = play.set_isr("orders", 1, 2, 3)
    assert (moved.replicas, moved.isr, moved.leader, moved.leader_epoch) == ((1, 3), (1, 3), 1, 1)


def test_another_order_moves_nothing() -> None:
    play = ClusterPlay(2)
    play.create("orders", [1, 2])
    after = reassign(play, "orders", 2, 1)
    assert (after.replicas, after.leader, after.leader_epoch, after.is_moving) == ((2, 1), 1, 0, False)
    assert decide_reassign(play.cluster, after.id, [2, 1]) == []


def test_fewer_replicas_take_effect_at_once() -> None:
    play = ClusterPlay(2)
    play.create("orders", [1, 2])
    after = reassign(play, "orders", 2)
    assert (after.replicas, after.isr, after.leader, after.leader_epoch) == ((2,), (2,), 2, 1)


def test_a_dead_replica_that_stays_does_not_hold_the_move_up() -> None:
    play = ClusterPlay(4)
    play.create("orders", [1, 2, 3])
    play.fence(3)
    reassign(play, "orders", 4, 2, 3)
    moved = play.set_isr("orders", 1, 2, 4)
    assert (moved.replicas, moved.isr, moved.is_moving) == ((4, 2, 3), (4, 2), False)


def test_a_move_is_not_complete_while_the_isr_would_shrink() -> None:
    play = ClusterPlay(4)
    play.create("orders", [1, 2, 3])
    play.fence(3)
    reassign(play, "orders", 4, 3)
    waiting = play.set_isr("orders", 1, 2, 4)
    assert waiting.is_moving, "two in sync would become one"
    play.unfence(3)
    assert play.set_isr("orders", 1, 2, 3, 4).isr == (4, 3)


def test_replicas_that_are_added_do_not_count_for_the_minimum() -> None:
    play = ClusterPlay(4)
    play.create("orders", [1, 2], isr_size_min=2)
    reassign(play, "orders", 3, 4)
    play.set_isr("orders", 1, 2, 3)
    assert play.set_isr("orders", 1, 3).elr == (2,)


def test_cancelling_goes_back_to_the_originals() -> None:
    play = ClusterPlay(3)
    play.create("orders", [1])
    before = play.partition("orders")
    with pytest.raises(NoReassignment, match="no reassignment in progress"):
        decide_cancel(play.cluster, before.id)
    reassign(play, "orders", 2)
    assert reassign(play, "orders", 3).replicas == (3, 1), "a new target replaces the old one"
    after = cancel(play, "orders")
    assert after == before._replace(leader_epoch=after.leader_epoch, partition_epoch=after.partition_epoch)
    assert after.leader_epoch == 2, "two replicas were removed, one after the other"


def test_cancelling_is_refused_if_no_original_can_lead() -> None:
    play = ClusterPlay(4)
    play.create("orders", [1])
    reassign(play, "orders", 2, 3)
    play.set_isr("orders", 1, 2)
    play.fence(1)
    assert play.partition("orders").leader == 2
    with pytest.raises(InvalidAssignment, match=r"none of the brokers \[1\] can lead it"):
        decide_cancel(play.cluster, play.partition("orders").id)
    with pytest.raises(InvalidAssignment, match="unclean"):
        decide_reassign(play.cluster, play.partition("orders").id, [4])
    assert play.set_isr("orders", 2, 3).replicas == (2, 3), "it can only complete"


def test_a_move_of_a_partition_without_a_leader_waits_for_it() -> None:
    play = ClusterPlay(2)
    play.create("orders", [1])
    play.fence(1)
    assert reassign(play, "orders", 2).leader == NO_LEADER
    assert cancel(play, "orders").elr == (1,)
    reassign(play, "orders", 2)
    play.unfence(1)
    assert play.set_isr("orders", 1, 2).replicas == (2,)


def test_an_unclean_election_of_the_new_replica_completes_the_move() -> None:
    """The way out for a broker that never comes back: its records are given up."""
    play = ClusterPlay(2)
    play.create("orders", [1])
    play.fence(1)
    reassign(play, "orders", 2)
    play.run(decide_elect(play.cluster, play.partition("orders").id, ElectionKind.UNCLEAN))
    after = play.partition("orders")
    assert (after.replicas, after.leader, after.is_recovering, after.is_moving) == ((2,), 2, True, False)


def test_an_unclean_election_that_completes_a_move_leaves_no_candidate_behind() -> None:
    """The other replica has records that the new leader lacks: it has to truncate before it counts again."""
    play = ClusterPlay(3)
    play.create("orders", [1, 3], isr_size_min=2)
    reassign(play, "orders", 2, 3)
    play.fence(1)
    play.fence(3)
    assert play.partition("orders").elr == (3, 1)
    play.run(decide_elect(play.cluster, play.partition("orders").id, ElectionKind.UNCLEAN))
    after = play.partition("orders")
    assert (after.replicas, after.leader, after.isr, after.elr) == ((2, 3), 2, (2,), ())


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ([], "includes an empty replica list"),
        ([1, 9], "includes broker 9, but no such broker is registered"),
        ([2, 1, 2], "includes the broker 2 more than once"),
    ],
)
def test_targets_are_checked(target: list[int], message: str) -> None:
    play = ClusterPlay(2)
    play.create("orders", [1])
    with pytest.raises(InvalidAssignment, match=message):
        decide_reassign(play.cluster, play.partition("orders").id, target)


def test_what_is_not_there_does_not_move() -> None:
    play = ClusterPlay(1)
    with pytest.raises(UnknownTopic):
        decide_reassign(play.cluster, PartitionId(topic_id("orders"), 0), [1])
    with pytest.raises(UnknownTopic):
        decide_cancel(play.cluster, PartitionId(topic_id("orders"), 0))
    for propose in (join_moves, drain_moves):
        with pytest.raises(UnknownBroker):
            propose(play.cluster, 9)


# -- proposals


def spread() -> ClusterPlay:
    play = ClusterPlay(2)
    play.create("orders", *([one] for one in (1, 2) * 6))
    return play


def test_a_joining_broker_is_offered_its_share() -> None:
    play = spread()
    assert rebalance_moves(play.cluster) == []
    play.register(3)
    assert join_moves(play.cluster, 3) == [], "not before it is unfenced"
    play.unfence(3)
    moves = join_moves(play.cluster, 3)
    assert moves == rebalance_moves(play.cluster)
    assert [move.after for move in moves] == [(3,)] * 4


def test_partitions_on_the_way_count_where_they_go() -> None:
    play = spread()
    play.start(3)
    for move in join_moves(play.cluster, 3):
        play.run(decide_reassign(play.cluster, move.partition, move.after))
    assert join_moves(play.cluster, 3) == rebalance_moves(play.cluster) == []


def test_a_partition_on_the_way_to_a_drained_broker_arrives_first() -> None:
    play = ClusterPlay(3)
    play.create("orders", [1])
    reassign(play, "orders", 2)
    play.run(decide_drain(play.cluster, 2, is_draining=True))
    assert drain_moves(play.cluster, 2) == []
    play.set_isr("orders", 1, 2)
    assert [move.before for move in drain_moves(play.cluster, 2)] == [(2,)]


def test_a_drained_broker_is_emptied_onto_the_others() -> None:
    play = spread()
    play.start(3)
    play.run(decide_drain(play.cluster, 1, is_draining=True))
    moves = drain_moves(play.cluster, 1)
    assert [move.before for move in moves] == [(1,)] * 6
    assert {move.after for move in moves} == {(3,)}, "the other one has its half already"
    for move in moves:
        play.run(decide_reassign(play.cluster, move.partition, move.after))
    assert drain_moves(play.cluster, 1) == []
    assert all(1 not in move.after for move in rebalance_moves(play.cluster))


def shares(play: ClusterPlay, *broker_ids: int) -> dict[int, int]:
    """Partitions of the topic that these brokers hold once all moves are complete."""
    return {broker_id: play.cluster.replica_count(broker_id) for broker_id in broker_ids}


def keep_up(play: ClusterPlay) -> None:
    """What the controller does."""
    while (plan := propose_upkeep(play.cluster)) is not None:
        for moves in in_changes(plan.moves):
            play.run(decide_moves(play.cluster, moves))
        if plan.is_share:
            play.run(decide_shared(play.cluster, plan.broker_id))


def arrive(play: ClusterPlay) -> None:
    """Every copy is complete."""
    for one in list(play.cluster.partitions()):
        if one.is_moving:
            play.set_isr("orders", *one.replicas, index=one.partition)


def test_a_broker_that_joins_takes_its_share_once_all_others_are_there() -> None:
    play = ClusterPlay(2)
    play.create("orders", *[[1], [2]] * 6)
    play.register(3, takes_share=True)
    assert play.cluster.broker(3).is_joining
    assert propose_upkeep(play.cluster) is None, "it is fenced"
    play.fence(2)
    play.unfence(3)
    assert propose_upkeep(play.cluster) is None, "the share of broker 2 would be taken from broker 1"
    play.unfence(2)
    keep_up(play)
    assert shares(play, 1, 2, 3) == {1: 4, 2: 4, 3: 4}
    assert not play.cluster.broker(3).is_joining and propose_upkeep(play.cluster) is None


def test_only_a_new_broker_of_a_cluster_takes_a_share() -> None:
    play = ClusterPlay()
    play.register(1, takes_share=True)
    assert not play.cluster.broker(1).is_joining, "the first one has everything"
    play.unfence(1)
    play.register(2, takes_share=True)
    play.unfence(2)
    keep_up(play)
    play.restart(2, 2, is_clean=True)
    play.register(3)
    assert not any(one.is_joining for one in play.cluster.brokers)


def test_a_share_that_was_not_given_is_given_after_a_restart() -> None:
    play = ClusterPlay(1)
    play.register(2, takes_share=True)
    play.register(2, 2)
    assert play.cluster.broker(2).is_joining


def test_a_drained_broker_is_emptied_as_far_as_others_can_take_over() -> None:
    play = ClusterPlay(3)
    play.create("orders", [1], [2], [2], [3])
    play.run(decide_drain(play.cluster, 2, is_draining=True))
    play.fence(1)
    play.fence(3)
    assert propose_upkeep(play.cluster) is None
    play.unfence(3)
    keep_up(play)
    assert shares(play, 2, 3) == {2: 0, 3: 3}
    assert propose_upkeep(play.cluster) is None
    arrive(play)
    assert play.cluster.held_by(2) == []


def test_a_broker_that_is_used_again_keeps_what_has_not_left_yet() -> None:
    play = ClusterPlay(2)
    play.create("orders", [2], [2])
    play.run(decide_drain(play.cluster, 2, is_draining=True))
    keep_up(play)
    play.set_isr("orders", 2, 1, index=0)
    left = leaving(play.cluster, 2)
    assert [one.partition for one in left] == [1], "the other one has arrived"
    play.run(decide_drain(play.cluster, 2, is_draining=False))
    play.run(decide_stay(play.cluster, 2, left))
    assert decide_stay(play.cluster, 2, [*left, PartitionId(b"?" * 16, 0)]) == []
    assert [one.replicas for one in play.cluster.partitions()] == [(1,), (2,)]
    assert not any(one.is_moving for one in play.cluster.partitions())
    assert not play.cluster.broker(2).is_draining


def test_thousands_of_moves_start_some_at_a_time() -> None:
    play = ClusterPlay(2)
    play.create("orders", *[[1]] * (MOVES_PER_CHANGE + 1))
    play.run(decide_drain(play.cluster, 1, is_draining=True))
    moves = drain_moves(play.cluster, 1)
    assert [len(one) for one in in_changes(moves)] == [MOVES_PER_CHANGE, 1]
    assert len(decide_moves(play.cluster, moves[:2])) == 2


def test_a_proposed_move_does_not_start_if_its_partition_has_moved_or_gone_since() -> None:
    play = ClusterPlay(3)
    play.create("orders", [1], [1], [1])
    play.run(decide_drain(play.cluster, 1, is_draining=True))
    moves = sorted(drain_moves(play.cluster, 1))
    play.run(decide_reassign(play.cluster, moves[0].partition, [2]))
    play.run(decide_reassign(play.cluster, moves[1].partition, [3]))
    arrive_at = play.cluster.partition(moves[1].partition)
    play.set_isr("orders", *arrive_at.replicas, index=arrive_at.partition)
    (event,) = decide_moves(play.cluster, moves)
    assert isinstance(event, PartitionSaved) and event.partition.id == moves[2].partition
    gone = [one._replace(partition=PartitionId(b"?" * 16, 0)) for one in moves]
    assert decide_moves(play.cluster, gone) == []


def test_a_share_is_given_once() -> None:
    play = ClusterPlay(1)
    play.register(2, takes_share=True)
    play.unfence(2)
    play.run(decide_shared(play.cluster, 2))
    assert decide_shared(play.cluster, 2) == decide_shared(play.cluster, 7) == []
