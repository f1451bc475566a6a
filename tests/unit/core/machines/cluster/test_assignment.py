"""The first replicas of new partitions: explicit ones as Kafka checks them, proposed ones by the ring."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import pytest

from cluster_play import ClusterPlay, topic_id
from penstock.core.errors import BrokerError, InvalidAssignment, InvalidReplication, TopicExists
from penstock.core.machines.catalog.events import Event, TopicSaved
from penstock.core.machines.cluster.brokers import decide_drain, decide_stop
from penstock.core.machines.cluster.events import PartitionSaved


def decide(
    play: ClusterPlay,
    name: str,
    size: int,
    factor: int = 1,
    assignments: Sequence[Sequence[int]] | None = None,
) -> list[Event]:
    return play.catalog.decide_create_topic(
        name,
        size,
        {},
        topic_id=topic_id(name),
        now_ms=0,
        replication_factor=factor,
        assignments=assignments,
    )


def replicas(events: Sequence[Event]) -> list[tuple[int, ...]]:
    return [event.partition.replicas for event in events if isinstance(event, PartitionSaved)]


def test_a_topic_and_its_placement_are_one_decision() -> None:
    play = ClusterPlay(3)
    events = play.run(decide(play, "orders", 6))
    assert isinstance(events[0], TopicSaved) and len(events) == 7
    assert Counter(replicas(events)) == {(1,): 2, (2,): 2, (3,): 2}
    for one in play.cluster.partitions_of(topic_id("orders")):
        assert one.isr == one.replicas == (one.leader,)
        assert one.leader_epoch == one.partition_epoch == 0


def test_small_topics_are_spread_over_the_cluster() -> None:
    play = ClusterPlay(3)
    for number in range(9):
        play.run(decide(play, f"t{number}", 1))
    assert Counter(one.leader for one in play.cluster.partitions()) == {1: 3, 2: 3, 3: 3}


def test_added_partitions_take_the_replication_factor_of_the_topic() -> None:
    play = ClusterPlay(3)
    play.run(decide(play, "orders", 2, 2))
    added = play.run(play.catalog.decide_add_partitions("orders", 6))
    assert [len(one) for one in replicas(added)] == [2] * 4
    assert Counter(one.leader for one in play.cluster.partitions()) == {1: 2, 2: 2, 3: 2}


def test_the_partitions_of_a_deleted_topic_are_removed() -> None:
    play = ClusterPlay(2)
    play.run(decide(play, "orders", 2))
    play.run(decide(play, "other", 1))
    play.run(play.catalog.decide_delete_topic("orders"))
    assert [one.topic_id for one in play.cluster.partitions()] == [topic_id("other")]


@pytest.mark.parametrize(
    ("factor", "message"),
    [
        (0, "must be larger than 0"),
        (-1, "must be larger than 0"),
        (3, "factor of 3 cannot be reached because only 2 broker"),
    ],
)
def test_a_replication_factor_that_the_cluster_cannot_have(factor: int, message: str) -> None:
    with pytest.raises(InvalidReplication, match=message):
        decide(ClusterPlay(2), "orders", 1, factor)


def test_drained_stopping_and_fenced_brokers_get_nothing_they_are_not_needed_for() -> None:
    play = ClusterPlay(4)
    play.run(decide_drain(play.cluster, 1, is_draining=True))
    play.run(decide_stop(play.cluster, 2, play.epoch(2)))
    play.fence(3)
    assert replicas(decide(play, "orders", 2)) == [(4,), (4,)]
    wide = play.run(decide(play, "wide", 4, 3))
    assert {one[0] for one in replicas(wide)} == {4}, "only a live broker leads"
    assert {frozenset(one) for one in replicas(wide)} == {frozenset({2, 3, 4})}
    assert play.partition("wide").isr == (4,)
    with pytest.raises(InvalidReplication, match="only 3 broker"):
        decide(play, "wider", 1, 4)


def test_nothing_is_placed_while_no_broker_is_available() -> None:
    play = ClusterPlay(1)
    play.fence(1)
    with pytest.raises(InvalidReplication, match="All brokers are currently fenced"):
        decide(play, "orders", 1)


def test_explicit_assignments_are_taken_as_they_are() -> None:
    play = ClusterPlay(3)
    play.fence(3)
    events = play.run(decide(play, "orders", 2, assignments=[[2, 1], [3, 1]]))
    assert replicas(events) == [(2, 1), (3, 1)]
    assert [one.leader for one in play.cluster.partitions()] == [2, 1]
    assert [one.isr for one in play.cluster.partitions()] == [(2, 1), (1,)]
    added = play.run(play.catalog.decide_add_partitions("orders", 3, assignments=[[1, 2]]))
    assert replicas(added) == [(1, 2)]


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        ([[]], "includes an empty replica list"),
        ([[1, 9]], "includes broker 9, but no such broker is registered"),
        ([[-1]], "includes broker -1, but no such broker is registered"),
        ([[2, 2]], "includes the broker 2 more than once"),
        ([[1], [1, 2]], r"a partition with 2 replica\(s\), but this is not consistent"),
        ([[1], [3]], "for partition 1 are fenced or in controlled shutdown"),
    ],
)
def test_explicit_assignments_are_checked_as_kafka_does(assignments: list[list[int]], message: str) -> None:
    play = ClusterPlay(3)
    play.fence(3)
    with pytest.raises(InvalidAssignment, match=message):
        decide(play, "orders", len(assignments), assignments=assignments)


@pytest.mark.parametrize(
    ("assignments", "message"),
    [
        ([[1]], "1 partitions are assigned, but 2 are added"),
        ([[1, 2], [1]], r"with 1 replica\(s\), but this is not consistent"),
        ([[1], [2]], r"with 1 replica\(s\).*previous partitions, which have 2"),
    ],
)
def test_assignments_of_added_partitions_are_checked(assignments: list[list[int]], message: str) -> None:
    play = ClusterPlay(2)
    play.create("orders", [1, 2])
    with pytest.raises(InvalidAssignment, match=message):
        play.catalog.decide_add_partitions("orders", 3, assignments=assignments)


def test_a_topic_is_checked_before_its_placement() -> None:
    play = ClusterPlay(1)
    play.create("orders", [1])
    with pytest.raises(TopicExists):
        play.catalog.decide_create_topic(
            "orders", 1, {}, topic_id=bytes(15) + b"9", now_ms=0, replication_factor=7
        )


def test_a_single_node_places_nothing() -> None:
    play = ClusterPlay()
    assert replicas(decide(play, "orders", 3, 1)) == []
    play.run(decide(play, "orders", 3))
    assert play.run(play.catalog.decide_add_partitions("orders", 4))[1:] == []
    assert play.catalog.decide_delete_topic("orders")[1:] == []


def test_a_draft_places_without_a_trace() -> None:
    play = ClusterPlay(2)
    play.create("orders", [1])
    draft = play.catalog.draft()
    for event in [
        *draft.decide_add_partitions("orders", 4),
        *draft.decide_create_topic("new", 2, {}, topic_id=topic_id("new"), now_ms=0),
    ]:
        draft.apply(event)
    assert len(list(draft.cluster.partitions())) == 6
    assert len(list(play.cluster.partitions())) == 1
    assert sum(play.cluster.load(topic_id("orders")).leaders.values()) == 1
    with pytest.raises(BrokerError):
        play.catalog.topic("new")
