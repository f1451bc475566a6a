"""Membership: who may register, and what happens to partitions when a broker comes, stops or dies."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from cluster_play import ClusterPlay, request, topic_id
from penstock.core.errors import (
    DuplicateBroker,
    InvalidRequest,
    StaleBrokerEpoch,
    UnknownBroker,
    WrongCluster,
)
from penstock.core.machines.cluster.brokers import (
    decide_drain,
    decide_fence,
    decide_link_key,
    decide_register,
    decide_stop,
    decide_unfence,
    decide_unregister,
)
from penstock.core.machines.cluster.events import BrokerSaved, ClusterEvent, LinkKeySaved, PartitionSaved
from penstock.core.machines.cluster.state import ClusterState
from penstock.core.machines.cluster.values import NO_LEADER, BrokerRegistration
from penstock.core.model import Address

Change = Callable[[ClusterState, int, int], Sequence[ClusterEvent]]


def test_the_first_link_key_stays() -> None:
    cluster = ClusterPlay().cluster
    (saved,) = decide_link_key(cluster, b"a" * 32)
    assert saved == LinkKeySaved(b"a" * 32)
    cluster.apply(saved)
    assert cluster.link_key == b"a" * 32
    assert decide_link_key(cluster, b"b" * 32) == []
    with pytest.raises(InvalidRequest, match="32 bytes, not 3"):
        decide_link_key(cluster, b"abc")


def test_a_broker_registers_fenced_and_gets_the_next_epoch() -> None:
    play = ClusterPlay()
    assert not play.cluster.has_brokers
    play.register(3, rack="r1", session=17)
    assert play.cluster.brokers == [
        BrokerRegistration(
            3, 1, "broker 3 run 1", {"PLAINTEXT": Address("host-3", 9092)}, "r1", 17, is_fenced=True
        )
    ]
    play.register(1)
    assert [(one.broker_id, one.epoch) for one in play.cluster.brokers] == [(1, 2), (3, 1)]
    assert play.cluster.ring_brokers() == [], "fenced brokers get no replicas"


def test_a_repeated_request_of_the_same_process_changes_nothing() -> None:
    play = ClusterPlay(1)
    assert decide_register(play.cluster, request(1)) == []
    play.register(1, session=5)
    assert (play.epoch(1), play.cluster.broker(1).session) == (1, 5), "it lost its session and has another"
    assert not play.cluster.is_fenced(1)


def test_an_id_in_use_is_refused_until_its_broker_is_fenced() -> None:
    play = ClusterPlay(1)
    with pytest.raises(DuplicateBroker, match="another process is registered as broker 1"):
        decide_register(play.cluster, request(1, run=2))
    play.fence(1)
    play.register(1, run=2)
    assert play.epoch(1) == 2


def test_a_broker_of_another_cluster_is_refused() -> None:
    play = ClusterPlay(1)
    with pytest.raises(WrongCluster, match="belongs to cluster other, but this is cluster test-cluster"):
        decide_register(play.cluster, request(2, cluster_id="other"))
    with pytest.raises(WrongCluster):
        decide_register(play.cluster, request(1, cluster_id="other"))


@pytest.mark.parametrize("broker_id", [-1, 2**31])
def test_broker_ids_have_bounds(broker_id: int) -> None:
    with pytest.raises(InvalidRequest, match=str(broker_id)):
        decide_register(ClusterPlay().cluster, request(broker_id))


@pytest.mark.parametrize("change", [decide_unfence, decide_stop, decide_fence])
def test_an_earlier_registration_may_change_nothing(change: Change) -> None:
    play = ClusterPlay(1)
    play.restart(1, run=2, is_clean=True)
    with pytest.raises(StaleBrokerEpoch, match="broker 1 has epoch 2, not 1"):
        change(play.cluster, 1, 1)
    with pytest.raises(StaleBrokerEpoch):
        change(play.cluster, 1, 3)
    with pytest.raises(UnknownBroker, match="broker 9 is not registered"):
        change(play.cluster, 9, 1)


def test_epochs_are_not_used_again_after_a_broker_was_unregistered() -> None:
    play = ClusterPlay(2)
    play.fence(2)
    play.run(decide_unregister(play.cluster, 2))
    assert play.cluster.find_broker(2) is None
    play.register(2, run=2)
    assert play.epoch(2) == 3


def test_the_death_of_a_broker_with_a_thousand_leaders_is_one_decision() -> None:
    play = ClusterPlay(2)
    play.create("big", *[[1]] * 1_000)
    play.create("other", [2])
    events = decide_fence(play.cluster, 1, play.epoch(1))
    assert len(events) == 1_001
    play.run(events)
    assert {
        (one.leader, one.isr, one.elr, one.leader_epoch)
        for one in play.cluster.partitions_of(topic_id("big"))
    } == {(NO_LEADER, (), (1,), 1)}
    assert play.partition("other").leader == 2
    assert len(play.unfence(1)) == 1_001
    assert {
        (one.leader, one.isr, one.elr, one.leader_epoch)
        for one in play.cluster.partitions_of(topic_id("big"))
    } == {(1, (1,), (), 2)}


def test_fencing_twice_and_unfencing_twice_changes_nothing() -> None:
    play = ClusterPlay(1)
    assert play.unfence(1) == []
    play.fence(1)
    assert play.fence(1) == []
    assert decide_stop(play.cluster, 1, play.epoch(1)) == []


def test_another_replica_takes_over_at_once() -> None:
    play = ClusterPlay(3)
    play.create("orders", [1, 2, 3])
    play.fence(1)
    after = play.partition("orders")
    assert (after.leader, after.isr, after.elr) == (2, (2, 3), ())
    play.unfence(1)
    assert play.partition("orders") == after, "it has to catch up before it is in sync"


def test_a_clean_restart_loses_no_candidate_and_an_unclean_one_does() -> None:
    play = ClusterPlay(2)
    play.create("orders", [1, 2], isr_size_min=2)
    play.fence(2)
    assert play.partition("orders").elr == (2,)
    play.register(2, run=2, previous_epoch=play.epoch(2))
    assert play.partition("orders").elr == (2,)
    play.register(2, run=3)
    assert play.partition("orders").elr == ()


def test_a_process_that_died_after_its_registration_loses_no_candidate() -> None:
    play = ClusterPlay(2)
    play.create("orders", [1, 2], isr_size_min=2)
    play.fence(2)
    last_epoch, died = play.epoch(2), request(2, run=2).incarnation_id
    play.register(2, run=2, previous_epoch=last_epoch)
    play.register(2, run=3, previous_epoch=last_epoch, attempts=[died])
    assert play.partition("orders").elr == (2,)
    play.register(2, run=4, previous_epoch=last_epoch, attempts=[died])
    assert play.partition("orders").elr == (), "run 3 may have been active"
    play.register(2, run=5, attempts=[request(2, run=4).incarnation_id])
    assert play.partition("orders").elr == ()


def test_the_only_replica_leads_after_an_unclean_restart_and_says_that_records_may_be_missing() -> None:
    play = ClusterPlay(1)
    play.create("orders", [1])
    play.restart(1, run=2, is_clean=True)
    assert (play.partition("orders").leader, play.partition("orders").is_recovering) == (1, False)
    play.restart(1, run=3, is_clean=False)
    assert (play.partition("orders").leader, play.partition("orders").is_recovering) == (1, True)


def test_a_controlled_shutdown_hands_over_what_others_can_lead() -> None:
    play = ClusterPlay(2)
    play.create("orders", [1, 2], [2, 1])
    play.create("single", [1])
    play.run(decide_stop(play.cluster, 1, play.epoch(1)))
    assert decide_stop(play.cluster, 1, play.epoch(1)) == []
    for one in play.cluster.partitions_of(topic_id("orders")):
        assert (one.leader, one.isr) == (2, (2,))
    assert play.partition("single").leader == 1, "nobody else has it"
    play.fence(1)
    assert play.partition("single").leader == NO_LEADER
    assert not play.cluster.broker(1).is_stopping, "a fenced broker has stopped"


def test_a_stopping_leader_hands_over_to_a_replica_that_catches_up_meanwhile() -> None:
    play = ClusterPlay(2)
    play.create("orders", [1, 2])
    play.set_isr("orders", 1)
    play.run(decide_stop(play.cluster, 1, play.epoch(1)))
    assert play.partition("orders").leader == 1
    after = play.set_isr("orders", 1, 2)
    assert (after.leader, after.isr) == (2, (2,)), "and leaves the ISR, where it would hold up commits"


def test_a_stopping_broker_does_not_become_leader() -> None:
    play = ClusterPlay(2)
    play.create("orders", [1, 2])
    play.run(decide_stop(play.cluster, 2, play.epoch(2)))
    play.create("later", [1, 2])
    play.run(decide_stop(play.cluster, 1, play.epoch(1)))
    play.fence(1)
    assert play.partition("later").leader == NO_LEADER
    assert play.partition("orders").leader == NO_LEADER
    play.restart(2, run=2, is_clean=True)
    assert play.partition("orders").leader == NO_LEADER, "it left the ISR before the end"


def test_a_drained_broker_gets_no_new_replicas_even_after_a_restart() -> None:
    play = ClusterPlay(2)
    (event,) = play.run(decide_drain(play.cluster, 1, is_draining=True))
    assert isinstance(event, BrokerSaved)
    assert decide_drain(play.cluster, 1, is_draining=True) == []
    play.restart(1, run=2, is_clean=True)
    assert [one.broker_id for one in play.cluster.ring_brokers()] == [2]
    play.run(decide_drain(play.cluster, 1, is_draining=False))
    assert [one.broker_id for one in play.cluster.ring_brokers()] == [1, 2]


def test_only_a_stopped_and_empty_broker_is_unregistered() -> None:
    play = ClusterPlay(2)
    play.create("orders", [2])
    with pytest.raises(InvalidRequest, match="broker 2 is running: stop it"):
        decide_unregister(play.cluster, 2)
    play.fence(2)
    with pytest.raises(InvalidRequest, match=r"holds replicas of 1 partitions.*drain it"):
        decide_unregister(play.cluster, 2)
    play.run(play.catalog.decide_delete_topic("orders"))
    play.run(decide_unregister(play.cluster, 2))
    assert [one.broker_id for one in play.cluster.brokers] == [1]


# -- from a single node to a cluster


def test_the_first_broker_takes_over_the_topics_of_the_single_node() -> None:
    play = ClusterPlay()
    play.run(play.catalog.decide_create_topic("orders", 2, {}, topic_id=topic_id("orders"), now_ms=0))
    assert list(play.cluster.partitions()) == [], "a single node places nothing"
    play.run(play.catalog.decide_register_broker(request(7), leader_epoch=4))
    assert play.partition("orders", 1).leader == NO_LEADER
    play.unfence(7)
    after = play.partition("orders", 1)
    assert (after.replicas, after.isr, after.leader, after.leader_epoch) == ((7,), (7,), 7, 5)
    events = play.catalog.decide_register_broker(request(8))
    assert not any(isinstance(event, PartitionSaved) for event in events), (
        "the second broker takes nothing over"
    )


def test_a_registration_survives_a_change_of_its_flags() -> None:
    play = ClusterPlay(1)
    before = play.cluster.broker(1)
    play.fence(1)
    assert play.cluster.broker(1) == replace(before, is_fenced=True)
