"""Subscriptions over HTTP: created, described, redriven and deleted, at the broker that coordinates them and others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from cluster_doors import DoorNodes, behind_doors
from http_client import HttpClient
from penstock.node.coordinators.subscriptions import TOPIC as SUBSCRIPTIONS_TOPIC

from .conftest import PatientClient, Stage

SUBSCRIPTIONS = "/api/v1/subscriptions"


async def ask(client: HttpClient, method: str, path: str = "", body: Any = None) -> tuple[int, Any]:
    answer = await client.ask(method, SUBSCRIPTIONS + path, body)
    return answer.status, answer.json if answer.body else None


def test_the_life_of_a_subscription(play: Callable[..., None]) -> None:
    async def test(stage: Stage) -> None:
        client = stage.client()
        assert await ask(client, "GET") == (200, {"subscriptions": []})
        await client.ask("POST", "/api/v1/messages", {"topic": "orders", "value": "1"})
        wanted = {"name": "billing", "topic": "orders", "hold_ms": 9_000, "max_deliveries": 2}
        status, made = await ask(client, "POST", "", wanted)
        assert (status, made["dead_letter_topic"], made["members"]) == (201, "orders.dlq", [])
        assert made["partitions"] == [
            {
                "partition": 0,
                "settled_offset": 0,
                "end_offset": 1,
                "unsettled_count": 1,
                "held_count": 0,
                "dying_count": 0,
            }
        ]
        assert await ask(client, "POST", "", wanted) == (200, made)
        status, refused = await ask(client, "POST", "", wanted | {"hold_ms": 1})
        assert (status, "already exists" in refused["detail"]) == (409, True)
        status, listed = await ask(client, "GET")
        assert [(one["name"], one["topic"]) for one in listed["subscriptions"]] == [("billing", "orders")]
        assert await ask(client, "GET", "/billing") == (200, made)
        assert await ask(client, "POST", "/billing/redrive", {}) == (200, {"redriven": 0})
        assert await ask(client, "DELETE", "/billing") == (204, None)
        assert (await ask(client, "GET", "/billing"))[0] == 404

    play(test)


@pytest.mark.parametrize(
    ("start", "settled"),
    [("earliest", 0), ("latest", 2), (1, 1), (0, 0), (None, 400), ("soon", 400), (3, 416)],
)
def test_where_it_starts(start: Any, settled: int, play: Callable[..., None]) -> None:
    async def test(stage: Stage) -> None:
        client = stage.client()
        for value in "ab":
            await client.ask("POST", "/api/v1/messages", {"topic": "orders", "value": value})
        status, found = await ask(client, "POST", "", {"name": "s", "topic": "orders", "start_offset": start})
        if status == 201:
            assert found["partitions"][0]["settled_offset"] == settled
        else:
            assert status == settled

    play(test)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"name": "s"}, 400),
        ({"topic": "orders"}, 400),
        ({"name": "s", "topic": "nowhere"}, 404),
        ({"name": "", "topic": "orders"}, 422),
        ({"name": "a\nb", "topic": "orders"}, 422),
        ({"name": "s", "topic": "orders", "hold_ms": 0}, 400),
        ({"name": "s", "topic": "orders", "colour": 1}, 400),
    ],
)
def test_what_is_refused(body: Any, status: int, play: Callable[..., None]) -> None:
    async def test(stage: Stage) -> None:
        client = stage.client()
        await client.ask("POST", "/api/v1/topics", {"name": "orders"})
        assert (await ask(client, "POST", "", body))[0] == status
        assert (await ask(client, "GET"))[1] == {"subscriptions": []}
        assert (await ask(client, "DELETE", "/nobody"))[0] == 404
        assert (await ask(client, "POST", "/nobody/redrive", {"count": 0}))[0] == 400

    play(test)


def test_any_broker_of_a_cluster_manages_any_subscription() -> None:
    async def play(nodes: DoorNodes) -> None:
        await nodes.create(1, "orders", 3)
        await nodes.open_subscriptions()
        await nodes.converged()
        host = nodes.brokers[1].subscriptions.host
        names = {}
        for number in range(1_000):
            home = nodes.brokers[1].leader_of(SUBSCRIPTIONS_TOPIC, host.index_of(f"s-{number}"))
            names.setdefault(home, f"s-{number}")
        assert names.keys() == {1, 2, 3}
        clients = {one: PatientClient(nodes.doors[one]) for one in (1, 2, 3)}
        for name in names.values():
            assert (await ask(clients[1], "POST", "", {"name": name, "topic": "orders"}))[0] == 201
        for client in clients.values():
            status, listed = await ask(client, "GET")
            assert (status, [one["name"] for one in listed["subscriptions"]]) == (200, sorted(names.values()))
            assert "partial" not in listed
            for name in names.values():
                status, found = await ask(client, "GET", f"/{name}")
                assert (status, found["name"], len(found["partitions"])) == (200, name, 3)
                assert await ask(client, "POST", f"/{name}/redrive", {}) == (200, {"redriven": 0})
        refused = await ask(clients[2], "POST", "", {"name": names[3], "topic": "orders", "hold_ms": 1})
        assert (refused[0], "already exists" in refused[1]["detail"]) == (409, True)
        for name in names.values():
            assert (await ask(clients[3], "DELETE", f"/{name}"))[0] == 204
            await asyncio.sleep(0)
            assert (await ask(clients[1], "GET", f"/{name}"))[0] == 404

    behind_doors(play)
