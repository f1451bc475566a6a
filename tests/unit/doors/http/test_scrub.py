"""The comparison of replicas over HTTP: one request starts it on all brokers, and one shows what all of them found."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cluster_nodes import ClusterNodes, on_a_cluster
from http_client import Answer, HttpClient

from .conftest import Stage, client_of

SCRUB = "/api/v1/cluster/scrub"


async def start(client: HttpClient, body: Any) -> Answer:
    return await client.ask("POST", SCRUB, json.dumps(body).encode())


def test_all_brokers_compare_what_they_lead() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 3)
        await nodes.converged()
        client = client_of(nodes.brokers[1])
        before = (await client.ask("GET", SCRUB)).json
        assert before["running"] is False and [one["id"] for one in before["brokers"]] == [1, 2, 3]
        assert {one["rounds"] for one in before["brokers"]} == {0}
        started = (await start(client, {"topic": "t"})).json
        assert started["running"] is True and "partial" not in started
        found: list[Any] = []

        async def ask() -> None:
            found.append((await client.ask("GET", SCRUB)).json)

        while not found or found[-1]["running"]:
            await ask()
        assert [one["rounds"] for one in found[-1]["brokers"]] == [1, 1, 1]
        assert (found[-1]["differences"], found[-1]["repairs"]) == (0, 0)

    on_a_cluster(play, has_doors=True, factor=3)


def test_a_broker_that_does_not_answer_is_named() -> None:
    async def play(nodes: ClusterNodes) -> None:
        found = (await client_of(nodes.brokers[1]).ask("GET", SCRUB)).json
        assert found["partial"] is True
        assert [("error" in one, one["id"]) for one in found["brokers"]] == [(False, 1), (True, 2)]

    on_a_cluster(play, brokers=2)  # without doors nobody listens for links


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"topic": "nowhere"}, 404, "UnknownTopic"),
        ({"topic": 7}, 400, "InvalidRequest"),
        ({"topics": []}, 400, "InvalidRequest"),
    ],
)
def test_what_is_refused(body: Any, status: int, code: str) -> None:
    async def play(nodes: ClusterNodes) -> None:
        answer = await start(client_of(nodes.brokers[1]), body)
        assert (answer.status, answer.json["code"]) == (status, code)

    on_a_cluster(play, brokers=1)


def test_a_single_broker_compares_nothing(play: Callable[..., None]) -> None:
    async def test(stage: Stage) -> None:
        client = stage.client()
        assert (await client.ask("GET", SCRUB)).json["brokers"] == []
        answer = await start(client, {})
        assert (answer.status, answer.json["code"]) == (409, "SingleBroker")

    play(test)
