"""Creation of topics on a single node and in a cluster: defaults, and the replicas that a client may ask for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cluster_play import ClusterPlay
from manual_ports import SetClock
from penstock.core.errors import InvalidAssignment, InvalidReplication, InvalidRequest
from penstock.core.machines.catalog.events import Event, TopicSaved
from penstock.core.machines.cluster.assignment import shares_rack
from penstock.core.machines.cluster.brokers import decide_drain
from penstock.core.machines.cluster.events import PartitionSaved
from penstock.node.settings import Settings
from penstock.node.topic_creation import NewTopic, ReplicaAssignment, TopicCreation

NODE = 1
ID = b"0123456789abcdef"


def creation(factor: int = 1) -> TopicCreation:
    return TopicCreation(Settings(default_partitions=3, default_replication_factor=factor), NODE, SetClock())


def leaders(events: Sequence[Event]) -> list[int]:
    return [event.partition.leader for event in events if isinstance(event, PartitionSaved)]


def replicas(events: Sequence[Event]) -> list[tuple[int, ...]]:
    return [event.partition.replicas for event in events if isinstance(event, PartitionSaved)]


def test_a_cluster_places_the_default_number_of_partitions() -> None:
    play = ClusterPlay(3)
    events = creation().decide(play.catalog, NewTopic("orders"), ID)
    assert isinstance(events[0], TopicSaved)
    assert sorted(leaders(events)) == [1, 2, 3]


def test_a_single_node_places_nothing() -> None:
    events = creation().decide(
        ClusterPlay().catalog, NewTopic("orders", assignments=[ReplicaAssignment(0, [NODE])]), ID
    )
    assert leaders(events) == []


def test_assignments_may_come_in_any_order() -> None:
    wanted = [ReplicaAssignment(1, [3]), ReplicaAssignment(0, [2])]
    events = creation().decide(ClusterPlay(3).catalog, NewTopic("orders", assignments=wanted), ID)
    assert leaders(events) == [2, 3]


@pytest.mark.parametrize(
    ("new", "error"),
    [
        (NewTopic("orders", replication_factor=4), InvalidReplication),
        (NewTopic("orders", replication_factor=0), InvalidReplication),
        (NewTopic("orders", 1, assignments=[ReplicaAssignment(0, [1])]), InvalidRequest),
        (NewTopic("orders", replication_factor=1, assignments=[ReplicaAssignment(0, [1])]), InvalidRequest),
        (NewTopic("orders", assignments=[ReplicaAssignment(1, [1])]), InvalidAssignment),
        (
            NewTopic("orders", assignments=[ReplicaAssignment(0, [1]), ReplicaAssignment(0, [1])]),
            InvalidAssignment,
        ),
        (
            NewTopic("orders", assignments=[ReplicaAssignment(0, [1]), ReplicaAssignment(1, [1, 2])]),
            InvalidAssignment,
        ),
        (NewTopic("orders", assignments=[ReplicaAssignment(0, [9])]), InvalidAssignment),
        (NewTopic("orders", assignments=[ReplicaAssignment(0, [])]), InvalidAssignment),
    ],
)
@pytest.mark.parametrize("count", [0, 3])
def test_what_cannot_be_placed_is_refused(new: NewTopic, error: type[Exception], count: int) -> None:
    with pytest.raises(error):
        creation().decide(ClusterPlay(count).catalog, new, ID)


def test_a_cluster_places_added_partitions() -> None:
    play = ClusterPlay(3)
    play.create("orders", [1])
    assert sorted(leaders(creation().decide_growth(play.catalog, "orders", 3, None))) == [2, 3]
    assert leaders(creation().decide_growth(play.catalog, "orders", 3, [[1], [2]])) == [1, 2]
    with pytest.raises(InvalidAssignment, match="not consistent with previous partitions, which have 1"):
        creation().decide_growth(play.catalog, "orders", 2, [[1, 2]])


def test_added_partitions_may_be_assigned_as_many_replicas_as_the_others_have() -> None:
    play = ClusterPlay(3)
    play.create("orders", [1, 2])
    events = creation().decide_growth(play.catalog, "orders", 2, [[2, 3]])
    assert replicas(events) == [(2, 3)]


def test_a_single_node_refuses_more_than_one_replica() -> None:
    for wanted in (
        NewTopic("orders", replication_factor=2),
        NewTopic("orders", assignments=[ReplicaAssignment(0, [1, 2])]),
    ):
        with pytest.raises((InvalidReplication, InvalidAssignment)):
            creation().decide(ClusterPlay().catalog, wanted, ID)
    assert leaders(creation(3).decide(ClusterPlay().catalog, NewTopic("orders"), ID)) == []


# -- replication factors


def racked(*racks: str) -> ClusterPlay:
    """Brokers 1 to n in these racks."""
    play = ClusterPlay()
    for broker_id, rack in enumerate(racks, 1):
        play.register(broker_id, rack=rack)
        play.unfence(broker_id)
    return play


def own_settings(events: Sequence[Event]) -> dict[str, str]:
    saved = events[0]
    assert isinstance(saved, TopicSaved)
    return dict(saved.topic.overrides)


@pytest.mark.parametrize(
    ("racks", "factor"),
    [
        (("m1", "m1", "m1"), 1),
        (("m1", "m2", "m1"), 2),
        (("m1", "m2", "m3"), 3),
        (("m1", "m2", "m3", "m4", "m5"), 3),
        (("", "", ""), 3),
    ],
)
def test_the_automatic_factor_is_the_number_of_machines_and_at_most_three(
    racks: tuple[str, ...], factor: int
) -> None:
    events = creation(0).decide(racked(*racks).catalog, NewTopic("orders"), ID)
    assert {len(one) for one in replicas(events)} == {factor}


def test_a_machine_that_is_down_counts_and_one_that_is_drained_does_not() -> None:
    play = racked("m1", "m2", "m3")
    play.fence(3)
    events = creation(0).decide(play.catalog, NewTopic("orders", 1), ID)
    assert [sorted(one) for one in replicas(events)] == [[1, 2, 3]]
    play.run(decide_drain(play.cluster, 3, is_draining=True))
    events = creation(0).decide(play.catalog, NewTopic("orders", 1), ID)
    assert [sorted(one) for one in replicas(events)] == [[1, 2]]


def test_a_configured_factor_counts_on_one_machine_too() -> None:
    play = racked("m1", "m1", "m1")
    assert {len(one) for one in replicas(creation(2).decide(play.catalog, NewTopic("orders"), ID))} == {2}
    asked = NewTopic("orders", replication_factor=3)
    assert {len(one) for one in replicas(creation(2).decide(play.catalog, asked, ID))} == {3}
    with pytest.raises(InvalidReplication, match="only 3 broker"):
        creation(4).decide(play.catalog, NewTopic("orders"), ID)


def test_an_internal_topic_gets_as_many_replicas_as_there_are_brokers() -> None:
    new = NewTopic("__consumer_offsets", 2, is_internal=True)
    assert {len(one) for one in replicas(creation(3).decide(racked("m1", "m1").catalog, new, ID))} == {2}


def test_replicas_are_spread_over_racks_first() -> None:
    """M24: two replicas of a partition are on one machine only if there are too few machines."""
    play = racked("m1", "m1", "m1", "m2", "m2", "m3")
    rack = {one.broker_id: one.rack for one in play.cluster.brokers}
    events = creation(3).decide(play.catalog, NewTopic("orders", 12), ID)
    assert all({rack[one] for one in some} == {"m1", "m2", "m3"} for some in replicas(events))
    assert not any(shares_rack(play.cluster, some) for some in replicas(events))
    events = creation(4).decide(play.catalog, NewTopic("orders", 12), ID)
    assert all({rack[one] for one in some} == {"m1", "m2", "m3"} for some in replicas(events))
    assert all(shares_rack(play.cluster, some) for some in replicas(events))


# -- min.insync.replicas


@pytest.mark.parametrize(("factor", "stored"), [(1, None), (2, None), (3, "2"), (4, "3")])
def test_three_replicas_or_more_need_all_but_one_in_sync(factor: int, stored: str | None) -> None:
    """M23: a default that neither loses records with one disk nor stops with one broker."""
    new = NewTopic("orders", 1, replication_factor=factor)
    events = creation().decide(racked("m1", "m2", "m3", "m4").catalog, new, ID)
    assert own_settings(events).get("min.insync.replicas") == stored


def test_explicit_assignments_count_for_it() -> None:
    new = NewTopic("orders", assignments=[ReplicaAssignment(0, [3, 1, 2])])
    assert own_settings(creation().decide(ClusterPlay(3).catalog, new, ID))["min.insync.replicas"] == "2"


def test_a_value_of_the_topic_or_the_cluster_stays() -> None:
    play = ClusterPlay(3)
    new = NewTopic("orders", 1, {"min.insync.replicas": "1"}, replication_factor=3)
    assert own_settings(creation().decide(play.catalog, new, ID)) == {"min.insync.replicas": "1"}
    play.run(play.catalog.decide_set_broker_config({"min.insync.replicas": "3"}))
    assert own_settings(creation().decide(play.catalog, new._replace(overrides={}), ID)) == {}


@pytest.mark.parametrize(
    ("assignments", "message"), [([[1]], "1 partitions are assigned"), ([[1], [2]], "only broker is 1")]
)
def test_a_single_node_takes_added_partitions_for_itself(assignments: list[list[int]], message: str) -> None:
    play = ClusterPlay()
    play.run(creation().decide(play.catalog, NewTopic("orders", 1), ID))
    assert leaders(creation().decide_growth(play.catalog, "orders", 3, [[NODE], [NODE]])) == []
    with pytest.raises(InvalidAssignment, match=message):
        creation().decide_growth(play.catalog, "orders", 3, assignments)
