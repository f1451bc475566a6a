"""The cluster over HTTP: what a single broker and the brokers of a cluster answer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cluster_nodes import ClusterNodes, on_a_cluster, until
from http_client import HttpClient
from memory_broker import make_topic
from penstock.apps.doorways import Doorways
from penstock.core.model import Address
from penstock.node.broker import Broker

from .conftest import Stage


def client_of(broker: Broker) -> HttpClient:
    broker.settings = replace(broker.settings, http_port=0)
    return HttpClient(Doorways(broker))


def test_a_single_broker(play: Callable[..., None]) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "t", partitions=2)
        await stage.broker.join({"kafka": Address("here", 9092), "http": Address("::1", 8080)})
        client = stage.client()
        content = (await client.ask("GET", "/api/v1/cluster")).json
        own_id = stage.broker.identity.node_id
        assert content["cluster_id"] == stage.broker.identity.cluster_id
        assert (content["broker"], content["controller"], content["partitions"]) == (own_id, own_id, 2)
        (own,) = content["brokers"]
        assert own["addresses"] == {"kafka": "here:9092", "http": "[::1]:8080"}
        assert (own["leaders"], own["fenced"], own["session_alive"]) == (2, False, True)
        partitions = (await client.ask("GET", "/api/v1/cluster/topics")).json["partitions"]
        assert [(one["topic"], one["partition"], one["leader"]) for one in partitions] == [
            ("t", 0, own_id),
            ("t", 1, own_id),
        ]
        assert (await client.ask("GET", "/api/v1/cluster/topics?offline=true")).json == {"partitions": []}
        ring = (await client.ask("GET", "/api/v1/cluster/ring")).json
        assert (ring["leaders_max"], ring["brokers"][0]["share"]) == (2, 1.0)
        gossip = (await client.ask("GET", "/api/v1/cluster/gossip")).json
        assert gossip == {"broker": own_id, "on": False, "health": 0, "controller": None, "peers": []}

    play(test)


def test_wrong_filters_are_refused(play: Callable[..., None]) -> None:
    async def test(stage: Stage) -> None:
        client = stage.client()
        for query in ("offline=maybe", "down=true", "offline=true&offline=true"):
            answer = await client.ask("GET", f"/api/v1/cluster/topics?{query}")
            assert (answer.status, answer.json["code"]) == (400, "InvalidRequest")

    play(test)


def test_a_cluster_with_a_failed_broker() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 3)
        await nodes.converged()
        nodes.kill(3)
        nodes.expire(3)
        await until(lambda: nodes.brokers[1].catalog.cluster.is_fenced(3))
        await until(lambda: nodes.brokers[1].controller_id in nodes.brokers)
        client = client_of(nodes.brokers[1])
        content = (await client.ask("GET", "/api/v1/cluster")).json
        assert content["controller"] == nodes.brokers[1].controller_id
        assert [(one["id"], one["fenced"], one["leaders"]) for one in content["brokers"]] == [
            (1, False, 1),
            (2, False, 1),
            (3, True, 0),
        ]
        (offline,) = (await client.ask("GET", "/api/v1/cluster/topics?offline=true")).json["partitions"]
        assert (offline["leader"], offline["replicas"], offline["isr"], offline["offline"]) == (
            None,
            [3],
            [],
            [3],
        )
        await client.hang_up()

    on_a_cluster(play)
