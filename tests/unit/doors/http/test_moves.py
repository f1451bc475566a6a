"""Moves over HTTP: plan, start, list, undo, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from cluster_nodes import ClusterNodes, on_a_cluster, until
from penstock.core.machines.cluster.reassignment import leaving

from .conftest import Stage, client_of

CLUSTER = "/api/v1/cluster"


def test_plan_start_list_and_undo() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 6)
        await nodes.converged()
        client, drain = client_of(nodes.brokers[1]), f"{CLUSTER}/brokers/2/drain"
        assert (await client.ask("POST", f"{CLUSTER}/rebalance?dry_run=true")).json == {
            "started": False,
            "moves": [],
        }
        plan = (await client.ask("POST", f"{drain}?dry_run=true")).json
        assert plan["started"] is False and [one["from"] for one in plan["moves"]] == [[2], [2]]
        assert (await client.ask("GET", f"{CLUSTER}/moves")).json == {"moves": []}
        started = (await client.ask("POST", drain)).json
        assert started == {"started": True, "moves": plan["moves"]}
        catalogs = [one.catalog.cluster for one in nodes.brokers.values()]
        await until(lambda: all(len(leaving(one, 2)) == len(plan["moves"]) for one in catalogs))
        listed = (await client.ask("GET", f"{CLUSTER}/moves")).json["moves"]
        assert [(one["partition"], one["to"], one["leader"]) for one in listed] == [
            (one["partition"], one["to"], 2) for one in plan["moves"]
        ]
        assert (await client.ask("DELETE", drain)).status == 204
        assert (await client.ask("GET", f"{CLUSTER}/moves")).json == {"moves": []}

    on_a_cluster(play)


@pytest.mark.parametrize(
    ("method", "path", "status", "code"),
    [
        ("POST", "brokers/9/drain", 404, "UnknownBroker"),
        ("DELETE", "brokers/9/drain", 404, "UnknownBroker"),
        ("POST", "brokers/x/drain", 404, "UnknownBroker"),
        ("POST", "brokers/12345678901/drain", 404, "UnknownBroker"),
        ("POST", "rebalance?dry_run=maybe", 400, "InvalidRequest"),
        ("GET", "rebalance", 405, "NoSuchMethod"),
    ],
)
def test_what_is_refused(method: str, path: str, status: int, code: str) -> None:
    async def play(nodes: ClusterNodes) -> None:
        answer = await client_of(nodes.brokers[1]).ask(method, f"{CLUSTER}/{path}")
        assert (answer.status, answer.json["code"]) == (status, code)

    on_a_cluster(play, brokers=2)


def test_a_single_broker_moves_nothing(play: Callable[..., None]) -> None:
    async def test(stage: Stage) -> None:
        client = stage.client()
        assert (await client.ask("GET", f"{CLUSTER}/moves")).json == {"moves": []}
        answer = await client.ask("POST", f"{CLUSTER}/rebalance")
        assert (answer.status, answer.json["code"]) == (409, "SingleBroker")

    play(test)
