"""Records published at any broker of a cluster: appended by the leader, once, in order, and told as by a local one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cluster_client import ClusterClient, leader_id, make_topic, others, stored
from cluster_nodes import ClusterNodes, on_a_cluster, until
from penstock.core.errors import (
    InvalidRecord,
    InvalidTopic,
    LeaderNotAvailable,
    NotLeader,
    PeerUnavailable,
    Throttled,
    TimedOut,
    TooLarge,
    UnknownTopic,
)
from penstock.node.waist import forwards
from penstock.node.waist.publisher import Published


def play(test: Callable[[ClusterNodes], Any], seed: int = 1) -> None:
    on_a_cluster(test, seed=seed, has_doors=True)


def test_every_broker_publishes_to_every_partition() -> None:
    async def test(nodes: ClusterNodes) -> None:
        await make_topic(nodes, "orders", 6)
        assert len({leader_id(nodes, "orders", index) for index in range(6)}) == 3
        for broker_id in sorted(nodes.brokers):
            client = ClusterClient(nodes, broker_id)
            for index in range(6):
                await client.publish("orders", b"%d at %d" % (index, broker_id), partition=index)
            assert await client.all() == [Published(index, broker_id - 1) for index in range(6)]
        for index in range(6):
            assert stored(nodes, "orders", index) == [b"%d at %d" % (index, one) for one in (1, 2, 3)]

    play(test)


def test_the_records_of_one_turn_are_one_batch() -> None:
    async def test(nodes: ClusterNodes) -> None:
        await make_topic(nodes, "orders")
        client = ClusterClient(nodes, others(nodes, "orders")[0])
        values = [b"%d" % number for number in range(100)]
        await client.publish("orders", *values)
        assert client.told == {}, "nothing is said before it is durable"
        assert await client.all() == [Published(0, offset) for offset in range(100)]
        partition = nodes.leader("orders").partition("orders", 0)
        assert len(list(partition.log.headers_from(0))) == 1 and stored(nodes, "orders") == values

    play(test)


@pytest.mark.parametrize("seed", range(5))
def test_the_order_of_a_connection_is_kept_over_turns_and_moves(seed: int) -> None:
    """The leader loses its session in between: it refuses some batches, and accepts later ones."""

    async def test(nodes: ClusterNodes) -> None:
        await make_topic(nodes, "orders")
        leader = leader_id(nodes, "orders")
        client = ClusterClient(nodes, others(nodes, "orders")[0])
        for number in range(200):
            await client.publish("orders", b"%03d" % number)
            if number % 50 == 25:
                nodes.expire(leader)
            await asyncio.sleep(0.001)
        await client.all()
        await until(lambda: len([1 for one in nodes.brokers.values() if one.find_led("orders", 0)]) == 1)
        acknowledged = [value for value, one in client.told.items() if isinstance(one, Published)]
        found = stored(nodes, "orders")
        assert sorted(set(found)) == found, "in order, none twice"
        assert set(acknowledged) <= set(found)
        for value in acknowledged:
            outcome = client.told[value]
            assert isinstance(outcome, Published) and found[outcome.offset] == value
        for one in client.told.values():
            assert isinstance(one, Published | LeaderNotAvailable | TimedOut | PeerUnavailable), repr(one)

    play(test, seed)


def test_a_topic_that_the_leader_has_not_heard_of_yet() -> None:
    async def test(nodes: ClusterNodes) -> None:
        for number in range(6):
            client = ClusterClient(nodes, 1 + number % 3)
            await client.publish(f"new-{number}", b"1", b"2", b"3")
            assert client.held == 3
            assert await client.all() == [Published(0, offset) for offset in range(3)]
            assert client.held == 0

    play(test)


def test_a_killed_leader_and_its_return() -> None:
    async def test(nodes: ClusterNodes) -> None:
        await make_topic(nodes, "orders", 3)
        index = next(one for one in range(3) if leader_id(nodes, "orders", one) != 1)
        leader = leader_id(nodes, "orders", index)
        client = ClusterClient(nodes, 1)
        await client.publish("orders", b"before", partition=index)
        assert await client.all() == [Published(index, 0)]
        nodes.kill(leader)
        link = nodes.brokers[1].runtime.meters.link(leader)
        await until(lambda: not link.is_open)  # what is sent before that has an unknown outcome
        await client.publish("orders", b"during", partition=index)
        await asyncio.sleep(0.1)
        assert b"during" not in client.told, "the leader may come back in time"
        own = next(one for one in range(3) if nodes.brokers[1].find_led("orders", one) is not None)
        await client.publish("orders", b"elsewhere", partition=own)
        await until(lambda: b"elsewhere" in client.told)
        assert isinstance(client.told[b"elsewhere"], Published), "everything else keeps working"
        nodes.expire(leader)
        await client.all()
        assert isinstance(client.told[b"during"], LeaderNotAvailable)
        await client.publish("orders", b"down", partition=index)
        await client.all()
        assert isinstance(client.told[b"down"], LeaderNotAvailable)
        await nodes.start(leader)
        await nodes.converged()
        await client.publish("orders", b"after", partition=index)
        await client.all()
        assert client.told[b"after"] == Published(index, 1)
        assert stored(nodes, "orders", index) == [b"before", b"after"]

    play(test)


@pytest.mark.parametrize("seed", range(10))
def test_a_leader_killed_in_the_middle_of_a_stream(seed: int) -> None:
    """Whatever is acknowledged is there; whatever was told to have changed nothing is not; nothing is there twice."""

    async def test(nodes: ClusterNodes) -> None:
        await make_topic(nodes, "orders")
        leader = leader_id(nodes, "orders")
        client = ClusterClient(nodes, others(nodes, "orders")[0])
        for number in range(120):
            await client.publish("orders", b"%03d" % number)
            if number == 60:
                nodes.kill(leader)
            if number == 90:
                nodes.expire(leader)
                await nodes.start(leader)
            await asyncio.sleep(0.000_5)
        await client.all()
        await client.publish("orders", b"last")
        await client.all()
        found = stored(nodes, "orders")
        assert len(set(found)) == len(found)
        kinds = {type(one) for one in client.told.values()}
        assert kinds <= {Published, LeaderNotAvailable, TimedOut, PeerUnavailable, NotLeader}, kinds
        for value, outcome in client.told.items():
            if isinstance(outcome, Published):
                assert found[outcome.offset] == value
            elif not isinstance(outcome, TimedOut):
                assert value not in found, (value, outcome)

    play(test, seed)


def test_a_leader_that_does_not_answer_makes_the_outcome_unknown_and_the_rest_unsent() -> None:
    async def test(nodes: ClusterNodes) -> None:
        await make_topic(nodes, "orders")
        leader = leader_id(nodes, "orders")
        client = ClusterClient(nodes, others(nodes, "orders")[0])
        await client.publish("orders", b"before")
        await client.all()
        nodes.net.cut(nodes.host(client.broker_id), nodes.host(leader))
        await client.publish("orders", b"sent")
        await asyncio.sleep(0.01)
        await client.publish("orders", b"waiting")
        await asyncio.sleep(5)
        assert set(client.told) == {b"before"}
        await client.all()
        assert isinstance(client.told[b"sent"], TimedOut) and "unknown" in str(client.told[b"sent"])
        assert isinstance(client.told[b"waiting"], PeerUnavailable | TimedOut)
        nodes.net.heal()

    play(test)


def test_only_invalid_records_fail() -> None:
    async def test(nodes: ClusterNodes) -> None:
        await make_topic(nodes, "orders", max_message_bytes="1000")
        await make_topic(nodes, "latest", cleanup_policy="compact")
        client = ClusterClient(nodes, others(nodes, "orders")[0])
        big = [b"a", b"x" * 1_000, b"b", b"y" * 400, b"z" * 400, b"w" * 400]
        await client.publish("orders", *big)
        await client.all()
        assert isinstance(client.told[big[1]], TooLarge)
        assert stored(nodes, "orders") == [big[0], *big[2:]]
        client = ClusterClient(nodes, others(nodes, "latest")[0])
        values = [b"%02d" % number for number in range(40)]
        await client.publish("latest", *values, key=lambda value: None if value in (b"07", b"23") else value)
        await client.all()
        refused = [value for value, one in client.told.items() if not isinstance(one, Published)]
        assert sorted(refused) == [b"07", b"23"]
        assert all(isinstance(client.told[value], InvalidRecord) for value in refused)
        assert stored(nodes, "latest") == [value for value in values if value not in refused]

    play(test)


def test_what_no_broker_accepts() -> None:
    async def test(nodes: ClusterNodes) -> None:
        await make_topic(nodes, "orders", 3)
        await nodes.brokers[1].group_coordinator.open()
        await nodes.converged()
        for broker_id in nodes.brokers:
            client = ClusterClient(nodes, broker_id)
            await client.publish("orders", b"x", partition=3)
            await client.publish("no such name!", b"y")
            await client.publish("__consumer_offsets", b"z")
            assert [type(one) for one in await client.all()] == [UnknownTopic, InvalidTopic, InvalidTopic]

    play(test)


def test_a_topic_that_is_deleted_while_records_wait() -> None:
    async def test(nodes: ClusterNodes) -> None:
        await make_topic(nodes, "orders")
        leader = leader_id(nodes, "orders")
        client = ClusterClient(nodes, others(nodes, "orders")[0])
        nodes.net.cut(nodes.host(client.broker_id), nodes.host(leader))
        await client.publish("orders", b"x")
        broker = nodes.brokers[client.broker_id]
        await broker.change(lambda catalog: catalog.decide_delete_topic("orders"))
        await client.all()
        assert isinstance(client.told[b"x"], UnknownTopic | TimedOut | PeerUnavailable)
        nodes.net.heal()
        await client.publish("orders", b"y")
        await client.all()
        assert client.told[b"y"] == Published(0, 0), "created again, another topic"
        await nodes.converged()
        assert stored(nodes, "orders") == [b"y"]

    play(test)


def test_waiting_records_are_bounded_and_hold_their_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forwards, "FORWARD_PARTITION_BYTES_MAX", 10_000)
    monkeypatch.setattr(forwards, "FORWARD_BYTES_MAX", 30_000)

    async def test(nodes: ClusterNodes) -> None:
        await make_topic(nodes, "orders")
        leader = leader_id(nodes, "orders")
        client = ClusterClient(nodes, others(nodes, "orders")[0])
        meter = nodes.brokers[client.broker_id].runtime.meters.forwards
        await client.publish("orders", b"first")
        await client.all()
        assert (meter.waiting_bytes, meter.records, client.held) == (0, 1, 0)
        nodes.net.cut(nodes.host(client.broker_id), nodes.host(leader))
        for number in range(40):
            await client.publish("orders", b"%03d" % number + bytes(1_000))
            await asyncio.sleep(0.001)
        assert client.held == 1, "its connection is held once"
        assert 10_000 < meter.waiting_bytes <= 30_000
        throttled = [one for one in client.told.values() if isinstance(one, Throttled)]
        assert throttled and "nothing was sent" in str(throttled[0])
        nodes.net.heal()
        await client.all()
        assert (client.held, meter.waiting_bytes) == (0, 0)
        sent = [value for value, one in client.told.items() if isinstance(one, Published)]
        assert stored(nodes, "orders") == sent and len(sent) + len(throttled) == 41

    play(test)


def test_a_stopping_broker_leaves_nobody_waiting() -> None:
    async def test(nodes: ClusterNodes) -> None:
        await make_topic(nodes, "orders")
        leader = leader_id(nodes, "orders")
        client = ClusterClient(nodes, others(nodes, "orders")[0])
        nodes.net.cut(nodes.host(client.broker_id), nodes.host(leader))
        await client.publish("orders", b"x")
        await nodes.stop(client.broker_id)
        assert isinstance(client.told[b"x"], PeerUnavailable | TimedOut)
        nodes.net.heal()

    play(test)
