"""Replicas that failed, brokers that stop, preferred leaders, and elections that a topic allows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cluster_play import ClusterPlay
from penstock.core.errors import Fenced, NotController, StaleBrokerEpoch, UnknownTopic
from penstock.core.machines.catalog.config_changes import ConfigChange, ConfigOp
from penstock.core.machines.catalog.events import Event
from penstock.core.machines.cluster.brokers import decide_drain, decide_stop
from penstock.core.machines.cluster.partition_state import (
    IsrChange,
    IsrMember,
    decide_change_isr,
    decide_preferred,
    decide_replica_failed,
)
from penstock.core.machines.cluster.reassignment import decide_reassign
from penstock.core.machines.cluster.values import NO_BROKER_EPOCH, NO_LEADER
from penstock.core.model import PartitionId


def three(isr_size_min: int = 2) -> ClusterPlay:
    play = ClusterPlay(4)
    play.create("orders", [1, 2, 3], isr_size_min=isr_size_min)
    return play


def fail(play: ClusterPlay, broker_id: int) -> Sequence[Event]:
    present = play.partition("orders")
    return play.run(
        decide_replica_failed(
            play.cluster, broker_id, play.epoch(broker_id), present.id, present.leader_epoch
        )
    )


# -- a failed replica


def test_a_failed_leader_hands_over_and_is_out_of_sync() -> None:
    play = three()
    fail(play, 1)
    after = play.partition("orders")
    assert (after.leader, after.isr, after.elr, after.leader_epoch) == (2, (2, 3), (), 1)
    assert after.replicas == (1, 2, 3) and not after.is_recovering
    assert play.set_isr("orders", 1, 2, 3).isr == (1, 2, 3), "repaired, it returns"


def test_a_failed_follower_leaves_in_a_new_leader_epoch() -> None:
    """What it fetched before, or what is on its way, does not bring it back without its records."""
    play = three()
    fail(play, 3)
    after = play.partition("orders")
    assert (after.leader, after.isr, after.leader_epoch) == (1, (1, 2), 1)


def test_so_does_one_that_was_out_of_sync() -> None:
    """Its leader may have decided to admit it before it failed."""
    play = three()
    play.set_isr("orders", 1, 2)
    before = play.partition("orders")
    wanted = IsrChange(
        before.id,
        before.leader_epoch,
        before.partition_epoch,
        [IsrMember(one, play.epoch(one)) for one in (1, 2, 3)],
    )
    fail(play, 3)
    after = play.partition("orders")
    assert (after.leader, after.isr, after.leader_epoch) == (1, (1, 2), before.leader_epoch + 1)
    with pytest.raises(Fenced):
        decide_change_isr(play.cluster, 1, play.epoch(1), wanted)


def test_it_leaves_the_elr_too() -> None:
    play = three()
    play.set_isr("orders", 1, 2)
    play.set_isr("orders", 1)
    assert play.partition("orders").elr == (2,)
    fail(play, 2)
    assert play.partition("orders").elr == ()


def test_the_only_complete_replica_stays() -> None:
    play = three(isr_size_min=1)
    play.set_isr("orders", 1)
    assert fail(play, 1) == []
    assert play.partition("orders").leader == 1
    play.fence(1)
    assert fail(play, 1) == [], "nor is it forgotten while it is down"
    play.unfence(1)
    assert play.partition("orders").leader == 1


def test_a_complete_replica_that_is_down_leads_when_it_is_back() -> None:
    play = three()
    play.set_isr("orders", 1, 2)
    play.fence(2)
    assert (play.partition("orders").isr, play.partition("orders").elr) == ((1,), (2,))
    fail(play, 1)
    assert play.partition("orders").leader == NO_LEADER
    play.unfence(2)
    after = play.partition("orders")
    assert (after.leader, after.isr, after.is_recovering) == (2, (2,), False)


def test_reports_of_the_past_are_refused() -> None:
    play = three()
    place, epoch = play.partition("orders").id, play.epoch(1)
    with pytest.raises(StaleBrokerEpoch):
        decide_replica_failed(play.cluster, 1, epoch - 1, place, 0)
    with pytest.raises(NotController):
        decide_replica_failed(play.cluster, 1, epoch, place, 1)
    with pytest.raises(UnknownTopic):
        decide_replica_failed(play.cluster, 1, epoch, PartitionId(bytes(16), 0), 0)
    fail(play, 1)
    with pytest.raises(Fenced):
        decide_replica_failed(play.cluster, 1, epoch, place, 0)
    assert decide_replica_failed(play.cluster, 4, play.epoch(4), place, 0) == [], "it holds none"


# -- planned stops


def test_a_stopping_broker_leaves_the_isr_and_the_last_one_does_not() -> None:
    play = three()
    for broker_id, left in ((1, (2, 3)), (2, (3,)), (3, (3,))):
        play.run(decide_stop(play.cluster, broker_id, play.epoch(broker_id)))
        after = play.partition("orders")
        assert (after.leader, after.isr) == (left[0], left)
        assert not after.is_recovering
    assert play.partition("orders").elr == (2,), "two could still commit without broker 1"
    for broker_id in (1, 2, 3):
        play.fence(broker_id)
    play.unfence(1)
    assert play.partition("orders").leader == NO_LEADER
    play.unfence(2)
    after = play.partition("orders")
    assert (after.leader, after.isr, after.is_recovering) == (2, (2,), False)


# -- preferred leaders


def test_leadership_returns_to_preferred_replicas_in_sync() -> None:
    play = ClusterPlay(3)
    play.create("orders", [1, 2, 3], [2, 3, 1], [1, 3, 2])
    play.fence(1)
    assert [play.partition("orders", index).leader for index in range(3)] == [2, 2, 3]
    play.unfence(1)
    assert decide_preferred(play.cluster, 10) == [], "it has not caught up"
    for index in range(3):
        play.set_isr("orders", 1, 2, 3, index=index)
    assert len(play.run(decide_preferred(play.cluster, 1))) == 1, "only as many as are asked for"
    play.run(decide_preferred(play.cluster, 10))
    assert [play.partition("orders", index).leader for index in range(3)] == [1, 2, 1]
    assert decide_preferred(play.cluster, 10) == []


def test_partitions_that_move_and_brokers_that_are_drained_are_left_alone() -> None:
    play = ClusterPlay(4)
    play.create("orders", [1, 2], [1, 2])
    play.fence(1)
    play.unfence(1)
    for index in range(2):
        play.set_isr("orders", 1, 2, index=index)
    play.run(decide_reassign(play.cluster, play.partition("orders", 1).id, [1, 3]))
    assert len(decide_preferred(play.cluster, 10)) == 1
    play.run(decide_drain(play.cluster, 1, is_draining=True))
    assert decide_preferred(play.cluster, 10) == []


# -- unclean elections


def allow_unclean(play: ClusterPlay) -> None:
    change = ConfigChange(ConfigOp.SET, "unclean.leader.election.enable", "true")
    play.run(play.catalog.decide_alter_configs("orders", [change]))


def test_a_topic_that_allows_it_gets_an_unclean_leader_when_nobody_else_is_left() -> None:
    """I17, L12: the ISR is the new leader alone, and it says that records may be missing."""
    play = three(isr_size_min=1)
    allow_unclean(play)
    play.set_isr("orders", 1, 2)
    play.fence(1)
    assert (play.partition("orders").leader, play.partition("orders").is_recovering) == (2, False)
    play.fence(2)
    after = play.partition("orders")
    assert (after.leader, after.isr, after.elr, after.is_recovering) == (3, (3,), (), True)


def test_a_replica_that_failed_is_elected_only_if_nobody_else_can_lead() -> None:
    play = three()
    allow_unclean(play)
    for broker_id in (3, 2):
        play.fence(broker_id)
    play.register(3, run=2, previous_epoch=NO_BROKER_EPOCH)
    play.unfence(3)
    assert (play.partition("orders").leader, play.partition("orders").elr) == (1, (2,))
    fail(play, 1)
    after = play.partition("orders")
    assert (after.leader, after.isr, after.is_recovering) == (3, (3,), True)
    play.fence(3)
    assert play.partition("orders").leader == 1


def test_without_it_the_partition_waits_and_allowing_it_elects_at_once() -> None:
    play = three(isr_size_min=1)
    play.set_isr("orders", 1)
    play.fence(1)
    assert play.partition("orders").leader == NO_LEADER
    allow_unclean(play)
    after = play.partition("orders")
    assert (after.leader, after.is_recovering) == (2, True)


def test_the_whole_cluster_may_allow_it() -> None:
    play = three(isr_size_min=1)
    play.set_isr("orders", 1)
    play.fence(1)
    play.run(play.catalog.decide_set_broker_config({"unclean.leader.election.enable": "true"}))
    assert play.partition("orders").leader == 2


def test_a_stopping_leader_is_not_replaced_by_a_replica_out_of_sync() -> None:
    play = three(isr_size_min=1)
    allow_unclean(play)
    play.set_isr("orders", 1)
    play.run(decide_stop(play.cluster, 1, play.epoch(1)))
    assert play.partition("orders").leader == 1


# -- brokers that lost records


def test_a_broker_that_lost_all_is_the_last_choice() -> None:
    """The last leader comes back without its records. If the others are lost too, one of them leads, not the first."""
    play = three()
    play.fence(2)
    play.fence(3)
    play.fence(1)
    before = play.partition("orders")
    assert (before.leader, before.last_leader, set(before.elr)) == (NO_LEADER, 1, {1, 3})
    play.register(1, run=2, previous_epoch=NO_BROKER_EPOCH)
    assert play.partition("orders").last_leader == 3
    play.register(3, run=2, previous_epoch=NO_BROKER_EPOCH)
    play.unfence(1)
    assert play.partition("orders").leader == NO_LEADER
    play.unfence(3)
    after = play.partition("orders")
    assert (after.leader, after.is_recovering) == (3, True)


def test_an_unclean_registration_always_changes_its_partitions() -> None:
    """M3: the broker leaves every ISR and ELR, in a new partition epoch, so that no request from before counts."""
    play = three()
    play.create("payments", [2, 1, 3], isr_size_min=2)
    play.fence(2)
    play.register(2, run=2, previous_epoch=NO_BROKER_EPOCH)
    for name in ("orders", "payments"):
        after = play.partition(name)
        assert 2 not in (*after.isr, *after.elr, after.leader)
    play.set_isr("orders", 1)
    play.fence(3)
    before = play.partition("orders")
    assert before.elr == (3,)
    play.register(3, run=2, previous_epoch=NO_BROKER_EPOCH)
    after = play.partition("orders")
    assert (after.isr, after.elr, after.partition_epoch) == ((1,), (), before.partition_epoch + 1)
