"""Creation of topics on a single node and in a cluster: defaults, and the replicas that a client may ask for."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cluster_play import ClusterPlay
from manual_ports import SetClock
from penstock.core.errors import InvalidAssignment, InvalidReplication, InvalidRequest
from penstock.core.machines.catalog.events import Event, TopicSaved
from penstock.core.machines.cluster.events import PartitionSaved
from penstock.node.topic_creation import NewTopic, ReplicaAssignment, TopicCreation

NODE = 1
ID = b"0123456789abcdef"


def creation() -> TopicCreation:
    return TopicCreation(3, NODE, SetClock())


def leaders(events: Sequence[Event]) -> list[int]:
    return [event.partition.leader for event in events if isinstance(event, PartitionSaved)]


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
        (NewTopic("orders", assignments=[ReplicaAssignment(0, [1, 1])]), InvalidAssignment),
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
    with pytest.raises(InvalidAssignment, match="not consistent with previous partitions"):
        creation().decide_growth(play.catalog, "orders", 2, [[1, 2]])


@pytest.mark.parametrize(
    ("assignments", "message"), [([[1]], "1 partitions are assigned"), ([[1], [2]], "only broker is 1")]
)
def test_a_single_node_takes_added_partitions_for_itself(assignments: list[list[int]], message: str) -> None:
    play = ClusterPlay()
    play.run(creation().decide(play.catalog, NewTopic("orders", 1), ID))
    assert leaders(creation().decide_growth(play.catalog, "orders", 3, [[NODE], [NODE]])) == []
    with pytest.raises(InvalidAssignment, match=message):
        creation().decide_growth(play.catalog, "orders", 3, assignments)
