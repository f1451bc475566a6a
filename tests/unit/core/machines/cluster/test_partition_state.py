"""ISR changes: the checks in their order, and what a change brings with it."""

from __future__ import annotations

import pytest

from cluster_play import ClusterPlay
from penstock.core.errors import (
    BrokerError,
    ElectionNotNeeded,
    Fenced,
    IneligibleReplica,
    InvalidRequest,
    NoEligibleLeader,
    NotController,
    PreferredLeaderUnavailable,
    StaleBrokerEpoch,
    StalePartitionEpoch,
    UnknownTopic,
)
from penstock.core.machines.catalog.config_changes import ConfigChange, ConfigOp
from penstock.core.machines.cluster.brokers import decide_stop
from penstock.core.machines.cluster.election import ElectionKind
from penstock.core.machines.cluster.partition_state import (
    IsrChange,
    IsrMember,
    decide_change_isr,
    decide_elect,
    decide_preferred,
)
from penstock.core.machines.cluster.values import NO_LEADER
from penstock.core.model import PartitionId


def three() -> ClusterPlay:
    play = ClusterPlay(4)
    play.create("orders", [1, 2, 3])
    return play


def refusal(play: ClusterPlay, change: IsrChange, sender: int = 1, epoch: int | None = None) -> BrokerError:
    epoch = play.epoch(sender) if epoch is None else epoch
    with pytest.raises(BrokerError) as caught:
        decide_change_isr(play.cluster, sender, epoch, change)
    return caught.value


def test_the_isr_shrinks_and_grows_without_a_new_leader_epoch() -> None:
    play = three()
    shrunk = play.set_isr("orders", 1, 3)
    assert (shrunk.isr, shrunk.leader_epoch, shrunk.partition_epoch) == ((1, 3), 0, 1)
    grown = play.set_isr("orders", 3, 2, 1)
    assert (grown.isr, grown.leader_epoch, grown.partition_epoch) == ((1, 2, 3), 0, 2)


def test_the_same_isr_is_no_change() -> None:
    play = three()
    assert decide_change_isr(play.cluster, 1, play.epoch(1), play.wanted_isr("orders", 3, 2, 1)) == []


def test_premises_are_checked_in_order() -> None:
    """Each request is wrong in all the ways that come later, too."""
    play = three()
    play.set_isr("orders", 1, 2)
    play.fence(1)
    play.unfence(1)
    present = play.partition("orders")
    assert (present.leader, present.leader_epoch, present.partition_epoch) == (2, 1, 2)
    broken = IsrChange(
        PartitionId(bytes(16), 0), 9, 9, [IsrMember(9, 9), IsrMember(9, 9)], is_recovering=True
    )
    assert isinstance(refusal(play, broken, sender=1, epoch=99), StaleBrokerEpoch)
    assert isinstance(refusal(play, broken), UnknownTopic)
    broken = broken._replace(partition=present.id)
    assert isinstance(refusal(play, broken), NotController)
    broken = broken._replace(leader_epoch=1)
    assert isinstance(refusal(play, broken), NotController), "the partition epoch is ahead as well"
    broken = broken._replace(leader_epoch=0, partition_epoch=1)
    assert isinstance(refusal(play, broken), Fenced)
    broken = broken._replace(leader_epoch=1)
    assert isinstance(refusal(play, broken, sender=1), InvalidRequest), "not the leader"
    assert isinstance(refusal(play, broken, sender=2), StalePartitionEpoch)
    broken = broken._replace(partition_epoch=2)
    assert "not a subset" in str(refusal(play, broken, sender=2))
    broken = broken._replace(isr=[IsrMember(3, 9), IsrMember(3, 9)])
    assert "not a subset" in str(refusal(play, broken, sender=2)), "twice"
    broken = broken._replace(isr=[IsrMember(3, 9)])
    assert "does not contain the leader 2" in str(refusal(play, broken, sender=2))
    broken = broken._replace(isr=[IsrMember(2, 9), IsrMember(3, 9)])
    assert "recovering again" in str(refusal(play, broken, sender=2))
    broken = broken._replace(is_recovering=False)
    assert isinstance(refusal(play, broken, sender=2), IneligibleReplica)
    right = broken._replace(isr=[IsrMember(2, play.epoch(2)), IsrMember(3, play.epoch(3))])
    play.run(decide_change_isr(play.cluster, 2, play.epoch(2), right))
    assert play.partition("orders").isr == (2, 3)


def test_who_is_fenced_stopping_or_restarted_does_not_join() -> None:
    play = three()
    play.set_isr("orders", 1)
    change = play.wanted_isr("orders", 1, 2)
    play.fence(2)
    assert "fenced or stopping" in str(refusal(play, change))
    play.register(2, run=2)
    play.unfence(2)
    assert "fetched in epoch 2, but registered again since" in str(refusal(play, change))
    change = play.wanted_isr("orders", 1, 3)
    play.run(decide_stop(play.cluster, 3, play.epoch(3)))
    assert "fenced or stopping" in str(refusal(play, change))


def test_replicas_that_leave_a_small_isr_stay_candidates() -> None:
    play = ClusterPlay(3)
    play.create("orders", [1, 2, 3], isr_size_min=2)
    assert play.set_isr("orders", 1, 2).elr == (), "two are enough"
    assert play.set_isr("orders", 1).elr == (2,)
    play.fence(1)
    after = play.partition("orders")
    assert (after.leader, after.isr, after.elr) == (2, (2,), (1,))
    play.fence(2)
    after = play.partition("orders")
    assert (after.leader, after.isr, after.elr, after.last_leader) == (NO_LEADER, (), (1, 2), 2)
    play.unfence(1)
    assert play.set_isr("orders", 1, 3).elr == ()


def test_a_minimum_above_the_replicas_counts_as_all_of_them() -> None:
    play = ClusterPlay(1)
    play.create("orders", [1], isr_size_min=2)
    assert play.partition("orders").elr == ()
    play.restart(1, run=2, is_clean=True)
    assert (play.partition("orders").leader, play.partition("orders").elr) == (1, ())


def test_a_new_minimum_clears_the_candidates_of_partitions_with_a_leader() -> None:
    """Else the leader commits alone, dies, and a replica without these records is elected."""
    play = ClusterPlay(2)
    play.create("orders", [1, 2], [1, 2], isr_size_min=2)
    play.set_isr("orders", 1)
    lower = ConfigChange(ConfigOp.SET, "min.insync.replicas", "1")
    play.run(play.catalog.decide_alter_configs("orders", [lower]))
    assert play.partition("orders").elr == ()
    assert play.partition("orders").partition_epoch == 2
    assert play.partition("orders", 1).partition_epoch == 0, "it had none"
    play.fence(1)
    assert play.partition("orders").leader == NO_LEADER
    assert play.partition("orders", 1).leader == 2


def test_candidates_are_cleared_once_one_of_them_leads_with_a_lower_minimum() -> None:
    play = ClusterPlay(2)
    play.create("orders", [1, 2], isr_size_min=2)
    play.fence(1)
    play.fence(2)
    lower = ConfigChange(ConfigOp.SET, "min.insync.replicas", "1")
    play.run(play.catalog.decide_alter_configs("orders", [lower]))
    assert play.partition("orders").elr == (1, 2), "nothing is committed without a leader"
    play.unfence(2)
    after = play.partition("orders")
    assert (after.leader, after.isr, after.elr) == (2, (2,), ())


def test_a_new_default_minimum_does_so_too() -> None:
    play = ClusterPlay(2)
    play.create("orders", [1, 2], isr_size_min=2)
    own = ConfigChange(ConfigOp.DELETE, "min.insync.replicas")
    two = ConfigChange(ConfigOp.SET, "min.insync.replicas", "2")
    play.run(play.catalog.decide_alter_broker_config([two]))
    play.run(play.catalog.decide_alter_configs("orders", [own]))
    assert play.set_isr("orders", 1).elr == (2,)
    play.run(play.catalog.decide_set_broker_config({}))
    assert play.partition("orders").elr == ()


def test_a_recovering_leader_has_no_other_member_until_it_has_recovered() -> None:
    play = ClusterPlay(2)
    play.create("orders", [1, 2])
    play.set_isr("orders", 1)
    play.fence(1)
    play.run(decide_elect(play.cluster, play.partition("orders").id, ElectionKind.UNCLEAN))
    after = play.partition("orders")
    assert (after.leader, after.isr, after.elr, after.is_recovering) == (2, (2,), (), True)
    play.unfence(1)
    both = play.wanted_isr("orders", 1, 2)
    assert "no other member" in str(refusal(play, both._replace(is_recovering=True), sender=2))
    play.run(decide_change_isr(play.cluster, 2, play.epoch(2), both))
    assert (play.partition("orders").isr, play.partition("orders").is_recovering) == ((1, 2), False)


def test_the_preferred_replica_is_elected_if_it_is_in_sync() -> None:
    play = three()
    partition = play.partition("orders").id
    with pytest.raises(ElectionNotNeeded, match="preferred replica 1 leads it already"):
        decide_elect(play.cluster, partition, ElectionKind.PREFERRED)
    play.fence(1)
    with pytest.raises(PreferredLeaderUnavailable, match="preferred replica 1 is fenced"):
        decide_elect(play.cluster, partition, ElectionKind.PREFERRED)
    play.unfence(1)
    with pytest.raises(PreferredLeaderUnavailable):
        decide_elect(play.cluster, partition, ElectionKind.PREFERRED)
    play.set_isr("orders", 1, 2)
    play.run(decide_elect(play.cluster, partition, ElectionKind.PREFERRED))
    assert (play.partition("orders").leader, play.partition("orders").leader_epoch) == (1, 2)


def test_a_preferred_replica_that_has_returned_lately_does_not_lead_yet() -> None:
    play = three()
    play.fence(1)
    play.unfence(1)
    play.set_isr("orders", 1, 2)
    assert decide_preferred(play.cluster, 10, recent=[1]) == []
    play.run(decide_preferred(play.cluster, 10, recent=[2, 3]))
    assert play.partition("orders").leader == 1


def test_an_unclean_election_is_for_partitions_without_a_leader() -> None:
    play = ClusterPlay(1)
    play.create("orders", [1])
    partition = play.partition("orders").id
    with pytest.raises(ElectionNotNeeded, match="broker 1 leads it"):
        decide_elect(play.cluster, partition, ElectionKind.UNCLEAN)
    play.fence(1)
    with pytest.raises(NoEligibleLeader, match=r"none of the brokers \[1\] is available"):
        decide_elect(play.cluster, partition, ElectionKind.UNCLEAN)
