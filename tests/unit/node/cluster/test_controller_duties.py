"""What the controller does for replicas: failover by probes, preferred leaders, replicas of internal topics."""

from __future__ import annotations

import asyncio

import pytest

from cluster_nodes import KAFKA_PORT, ClusterNodes, on_a_cluster, until
from penstock.core.machines.cluster.reassignment import decide_reassign
from penstock.core.session import Session
from penstock.node.cluster.controller import LEAVING_S, PREFERRED_S, RECENT_S
from penstock.node.cluster.membership import HAND_OVER_S
from penstock.node.cluster.peer_probes import SUSPENSE_S_MAX
from penstock.node.topic_creation import NewTopic

SESSION = Session("test")
OFFSETS = "__consumer_offsets"


def leaders(nodes: ClusterNodes, topic: str = "t") -> list[int]:
    return [one.leader for one in nodes.placed(next(iter(nodes.brokers)), topic)]


def in_sync(nodes: ClusterNodes, count: int, topic: str = "t") -> bool:
    placed = nodes.placed(next(iter(nodes.brokers)), topic)
    return bool(placed) and all(len(one.isr) == count and not one.is_moving for one in placed)


async def ready(nodes: ClusterNodes) -> None:
    """There is a controller, and brokers have reached each other."""
    others = len(nodes.brokers) - 1
    await until(
        lambda: all(
            one.controller is not None
            and one.controller_id > 0
            and len(one.controller.probes._reached) == others
            for one in nodes.brokers.values()
        )
    )


def now_s() -> float:
    return asyncio.get_running_loop().time()


@pytest.mark.parametrize("dead", [1, 2, 3])
def test_a_lost_link_is_enough_to_take_over(dead: int) -> None:
    """Nobody is told of the death: followers lose their connections to the leader, and probe it."""

    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 6)
        await nodes.converged()
        await ready(nodes)
        await asyncio.sleep(1)  # followers fetch
        nodes.kill(dead)
        before_s = now_s()
        await until(lambda: dead not in leaders(nodes) and -1 not in leaders(nodes))
        assert now_s() - before_s < 1.5, "no time limit had to pass"
        await until(lambda: all(one.controller_id not in (-1, dead) for one in nodes.brokers.values()))

    on_a_cluster(play, has_doors=True, factor=3)


def test_answers_about_leaders_wait_while_one_seems_to_be_dead() -> None:
    """A client that loses its leader asks another broker before the election: it is told of the successor."""

    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 6)
        await nodes.converged()
        await ready(nodes)
        asked, dead = nodes.brokers[1], 3
        waist = nodes.doors[1].waist

        def told() -> list[int]:
            return [one.leader_id for one in waist.topics.states(SESSION, "t")]

        assert asked.controller is not None and dead in told() and not waist.cluster.has_suspects
        nodes.kill(dead)
        asked.controller.probes.suspect(dead)
        assert waist.cluster.has_suspects and dead in told(), "the election has not taken place yet"
        await waist.cluster.suspense(SESSION)
        assert dead not in told() and -1 not in told() and not waist.cluster.has_suspects
        named = [one.id for one in waist.cluster.describe(SESSION, with_leaving=True).brokers]
        assert dead in named, "librdkafka would drop the new leaders with it"
        assert dead not in [one.id for one in waist.cluster.describe(SESSION).brokers]
        await asyncio.sleep(LEAVING_S)
        assert dead not in [one.id for one in waist.cluster.describe(SESSION, with_leaving=True).brokers]

    on_a_cluster(play, has_doors=True, factor=3)


def test_answers_wait_again_for_a_broker_that_came_back_and_dies_again() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.converged()
        await ready(nodes)
        controller, cluster = nodes.brokers[1].controller, nodes.doors[1].waist.cluster
        assert controller is not None
        for _ in range(2):
            nodes.kill(3)
            controller.probes.suspect(3)
            assert cluster.has_suspects
            await cluster.suspense(SESSION)
            await nodes.start(3)
            await ready(nodes)

    on_a_cluster(play, has_doors=True, factor=3)


def test_answers_do_not_wait_again_and_again_for_a_leader_that_cannot_be_reached() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 6)
        await nodes.converged()
        await ready(nodes)
        nodes.net.cut(nodes.host(1), nodes.host(3))
        controller, cluster = nodes.brokers[1].controller, nodes.doors[1].waist.cluster
        assert controller is not None
        controller.probes.suspect(3)
        began_s = asyncio.get_running_loop().time()
        await cluster.suspense(SESSION)
        assert asyncio.get_running_loop().time() - began_s <= SUSPENSE_S_MAX
        await until(lambda: not cluster.has_suspects)
        controller.probes.suspect(3)
        assert not cluster.has_suspects and not nodes.brokers[1].catalog.cluster.is_fenced(3)
        nodes.net.heal()

    on_a_cluster(play, has_doors=True, factor=3)


def test_leadership_returns_to_a_broker_that_has_caught_up() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 6)
        await nodes.converged()
        await ready(nodes)
        before = leaders(nodes)
        await nodes.stop(3)
        await nodes.converged()
        assert 3 not in leaders(nodes)
        await nodes.start(3)
        started_s = now_s()
        await until(lambda: in_sync(nodes, 3))
        await until(lambda: leaders(nodes) == before)
        assert RECENT_S <= now_s() - started_s < RECENT_S + 5 * PREFERRED_S, "long before the next check"
        elected = [one.controller.elections.clean for one in nodes.brokers.values() if one.controller]
        assert sum(elected) >= before.count(3)

    on_a_cluster(play, has_doors=True, factor=3)


def test_a_broker_that_has_just_returned_does_not_take_over() -> None:
    """Clients may wait before they connect to it again."""

    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 6)
        await nodes.converged()
        await ready(nodes)
        await asyncio.sleep(RECENT_S)
        await nodes.stop(2)
        await nodes.start(2)
        await until(lambda: in_sync(nodes, 3))
        await nodes.stop(3)
        await nodes.converged()
        assert set(leaders(nodes)) == {1}
        await nodes.start(3)
        await until(lambda: in_sync(nodes, 3))
        await nodes.stop(1)
        await nodes.converged()
        assert set(leaders(nodes)) == {2}, "it returned before the other"

    on_a_cluster(play, has_doors=True, factor=3)


def test_a_broker_that_stops_answers_until_clients_know_the_new_leaders() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 6)
        await nodes.converged()
        await ready(nodes)
        stop = asyncio.create_task(nodes.stop(3))
        await until(lambda: 3 not in leaders(nodes))
        await asyncio.sleep(HAND_OVER_S / 2)
        _, writer = await asyncio.open_connection(nodes.host(3), KAFKA_PORT)
        assert not stop.done(), "it still accepts connections"
        writer.close()
        await stop

    on_a_cluster(play, has_doors=True, factor=3)


def test_a_broker_that_leads_nothing_stops_at_once() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.converged()
        await ready(nodes)
        began_s = now_s()
        await nodes.stop(3)
        assert now_s() - began_s < HAND_OVER_S

    on_a_cluster(play, has_doors=True, factor=3)


def test_internal_topics_are_raised_when_machines_join(caplog: pytest.LogCaptureFixture) -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.brokers[1].internal_topic(OFFSETS, 4, {"cleanup.policy": "compact"})
        assert {one.replicas for one in nodes.placed(1, OFFSETS)} == {(1,)}
        await nodes.start(2)
        await until(lambda: in_sync(nodes, 2, OFFSETS))
        catalog = nodes.brokers[1].catalog
        assert "min.insync.replicas" not in catalog.topic(OFFSETS).overrides
        await nodes.start(3)
        await until(lambda: in_sync(nodes, 3, OFFSETS))
        await until(lambda: catalog.config(OFFSETS).insync_replicas_min == 2)

    on_a_cluster(play, brokers=1, has_doors=True, factor=0)
    assert "several replicas on one machine" not in caplog.text


def test_replicas_on_one_machine_are_warned_of_once(caplog: pytest.LogCaptureFixture) -> None:
    async def play(nodes: ClusterNodes) -> None:
        await ready(nodes)
        for name in ("t", "u"):
            await nodes.create(1, name, 3)
        await nodes.converged()
        assert all(len(one.replicas) == 2 for one in nodes.placed(1, "u"))

    on_a_cluster(play, has_doors=True, factor=2, rack="one-machine")
    assert caplog.text.count("several replicas on one machine") == 1


def test_a_partition_may_get_more_and_fewer_replicas() -> None:
    async def play(nodes: ClusterNodes) -> None:
        broker = nodes.brokers[1]
        await broker.create_topic(NewTopic("t", 1, replication_factor=1))
        (placed,) = nodes.placed(1, "t")
        first = placed.leader
        others = [one for one in (1, 2, 3) if one != first]
        await broker.change(lambda catalog: decide_reassign(catalog.cluster, placed.id, [*others, first]))
        await until(lambda: in_sync(nodes, 3))
        await until(lambda: leaders(nodes) == [others[0]])
        await broker.change(lambda catalog: decide_reassign(catalog.cluster, placed.id, others))
        await until(lambda: in_sync(nodes, 2))
        assert set(nodes.placed(1, "t")[0].replicas) == set(others)

    on_a_cluster(play, has_doors=True)
