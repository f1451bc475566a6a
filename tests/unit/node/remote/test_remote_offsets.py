"""Offsets, sizes, lag and groups of the whole cluster at any broker, and what is said about a broker that is silent."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cluster_client import SESSION, ClusterClient, leader_id, make_topic
from cluster_nodes import ClusterNodes, on_a_cluster, until
from penstock.core.errors import BrokerError, LeaderNotAvailable, PeerUnavailable, TimedOut
from penstock.core.model import TopicPartition
from penstock.node.coordinators.committed import NO_RETENTION, Committer, NewOffset
from penstock.node.remote import remote_offsets
from penstock.node.topic_creation import NewTopic
from penstock.node.waist.positions import Bounds
from penstock.node.waist.topics import PartitionDetail
from penstock.node.waist.waist import Waist

COUNT = 6


def play(test: Callable[[ClusterNodes], Any]) -> None:
    on_a_cluster(test, has_doors=True)


async def filled(nodes: ClusterNodes) -> ClusterClient:
    """Partition n of a topic has n + 1 records."""
    await make_topic(nodes, "orders", COUNT)
    client = ClusterClient(nodes, 1)
    for index in range(COUNT):
        await client.publish(
            "orders", *[b"%d %d" % (index, one) for one in range(index + 1)], partition=index
        )
    await client.all()
    return client


def waist(nodes: ClusterNodes, broker_id: int) -> Waist:
    return nodes.doors[broker_id].waist


async def details(nodes: ClusterNodes, broker_id: int) -> list[PartitionDetail]:
    verbs = waist(nodes, broker_id).topics

    async def ask() -> list[PartitionDetail]:
        told = await verbs.details_elsewhere(SESSION, ["orders"])
        return list(verbs.details(SESSION, "orders", told))

    return await nodes.run_on(broker_id, ask())


def test_every_broker_tells_the_same_about_every_partition(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_offsets, "PEER_QUERY_PARTITIONS_MAX", 1)

    async def test(nodes: ClusterNodes) -> None:
        await filled(nodes)
        found = [await details(nodes, broker_id) for broker_id in (1, 2, 3)]
        assert found[0] == found[1] == found[2]
        for index, one in enumerate(found[0]):
            size_bytes = nodes.leader("orders", index).partition("orders", index).log.size()
            assert one == PartitionDetail(index, 0, index + 1, index + 1, size_bytes, is_online=True)
        for broker_id in (1, 2, 3):
            places = [TopicPartition("orders", index) for index in range(COUNT)]
            positions = waist(nodes, broker_id).positions
            told = await nodes.run_on(broker_id, positions.bounds_elsewhere(SESSION, places))
            led = [one for one in places if nodes.brokers[broker_id].find_led(*one) is not None]
            assert led and told == {one: Bounds(0, one.partition + 1) for one in places if one not in led}

    play(test)


def test_a_topic_that_its_leaders_have_not_heard_of_yet() -> None:
    async def test(nodes: ClusterNodes) -> None:
        await nodes.brokers[1].create_topic(NewTopic("orders", COUNT))
        assert [one.error for one in await details(nodes, 1)] == [None] * COUNT

    play(test)


def test_a_silent_broker_is_named_in_a_partial_answer() -> None:
    async def test(nodes: ClusterNodes) -> None:
        await filled(nodes)
        nodes.net.cut(nodes.host(1), nodes.host(2))
        for one in await details(nodes, 1):
            if leader_id(nodes, "orders", one.partition) == 2:
                assert isinstance(one.error, PeerUnavailable | TimedOut) and "broker 2" in str(one.error)
                assert (one.start_offset, one.high_watermark, one.is_online) == (-1, -1, False)
            else:
                assert one.error is None and one.high_watermark == one.partition + 1
        nodes.net.heal()
        lost = [index for index in range(COUNT) if leader_id(nodes, "orders", index) == 2]
        nodes.kill(2)
        nodes.expire(2)
        await until(lambda: nodes.brokers[1].leader_of("orders", lost[0]) == -1)
        for one in await details(nodes, 1):
            assert isinstance(one.error, LeaderNotAvailable) == (one.partition in lost)

    play(test)


async def commit(nodes: ClusterNodes, group_id: str, offsets: dict[int, int]) -> int:
    """Commit at the group's coordinator; returns its broker id."""
    await nodes.brokers[1].group_coordinator.open()
    await nodes.converged()
    host = nodes.brokers[1].group_coordinator.groups.host
    broker_id = nodes.brokers[1].leader_of("__consumer_offsets", host.index_of(group_id))
    coordinator = nodes.brokers[broker_id].group_coordinator
    await coordinator.loaded()
    answers: list[Any] = []
    new = [NewOffset(TopicPartition("orders", index), offset, -1, "") for index, offset in offsets.items()]
    coordinator.committed.commit(group_id, Committer(), new, NO_RETENTION, answers.append)
    await until(lambda: answers)
    return broker_id


def test_the_lag_of_a_group_counts_partitions_of_all_brokers() -> None:
    async def test(nodes: ClusterNodes) -> None:
        await filled(nodes)
        broker_id = await commit(nodes, "readers", {0: 1, 3: 1, 4: 5})
        groups = waist(nodes, broker_id).groups
        rows = list(await nodes.run_on(broker_id, groups.lag(SESSION, "readers")))
        assert [(one.committed_offset, one.end_offset, one.records) for one in rows] == [
            (1, 1, 0),
            (None, 2, 2),
            (None, 3, 3),
            (1, 4, 3),
            (5, 5, 0),
            (None, 6, 6),
        ]
        silent = next(one for one in nodes.brokers if one != broker_id)
        nodes.net.cut(nodes.host(broker_id), nodes.host(silent))
        rows = list(await nodes.run_on(broker_id, groups.lag(SESSION, "readers")))
        for one in rows:
            is_lost = leader_id(nodes, "orders", one.place.partition) == silent
            assert isinstance(one.error, BrokerError) == is_lost
            assert (one.end_offset == -1) == is_lost
        nodes.net.heal()

    play(test)


def test_every_broker_lists_the_groups_of_all() -> None:
    async def test(nodes: ClusterNodes) -> None:
        await filled(nodes)
        names = [f"group-{number:02}" for number in range(12)]
        coordinators = {name: await commit(nodes, name, {0: 1}) for name in names}
        assert set(coordinators.values()) == {1, 2, 3}
        for broker_id in nodes.brokers:
            listing = await nodes.run_on(broker_id, waist(nodes, broker_id).groups.everywhere(SESSION))
            assert [one.group_id for one in listing.groups] == names and listing.silent == []
        nodes.net.cut(nodes.host(1), nodes.host(3))
        listing = await nodes.run_on(1, waist(nodes, 1).groups.everywhere(SESSION))
        assert [one.group_id for one in listing.groups] == [name for name in names if coordinators[name] != 3]
        (error,) = listing.silent
        assert "broker 3" in str(error)
        nodes.net.heal()

    play(test)
