"""When a cluster is whole."""

from __future__ import annotations

import pytest

from penstock.apps.bench.harness.cluster_state import SeenCluster, SeenPartition, await_state, read_state
from penstock.apps.bench.harness.link import UnexpectedResponse
from penstock.apps.bench.harness.loader import Loader
from penstock.testing import running_broker

ALL = frozenset({1, 2, 3})


def partition(leader: int, in_sync: frozenset[int] = ALL, index: int = 0) -> SeenPartition:
    return SeenPartition("orders", index, leader, ALL, in_sync)


@pytest.mark.parametrize(
    ("state", "is_whole"),
    [
        (SeenCluster(ALL, (partition(1), partition(2))), True),
        (SeenCluster(ALL, ()), True),
        (SeenCluster(frozenset({1, 2}), (partition(1),)), False),
        (SeenCluster(ALL, (partition(1), partition(2, frozenset({2, 3})))), False),
        (SeenCluster(ALL, (partition(-1),)), False),
    ],
)
def test_a_cluster_is_whole_with_all_brokers_and_all_replicas(state: SeenCluster, is_whole: bool) -> None:
    assert state.is_whole(3) is is_whole


def test_the_partitions_of_a_topic_are_in_order() -> None:
    state = SeenCluster(ALL, (partition(2, index=1), partition(1, index=0)))
    assert [one.leader for one in state.of("orders")] == [1, 2]
    assert state.of("others") == []


def test_the_state_is_read_from_a_broker_and_creates_nothing() -> None:
    with running_broker(storage="memory") as broker:
        address = broker.host, broker.port
        assert read_state(address).partitions == ()
        with Loader(address) as loader:
            loader.create_topics(["orders"])
        (one,) = read_state(address).of("orders")
        assert one.in_sync == one.replicas == {one.leader} == read_state(address).brokers
        with pytest.raises(UnexpectedResponse, match="after 0 s"):
            await_state(address, lambda state: state.is_whole(3), 0.1)
