"""Committed offsets over HTTP: committed, read back, refused, at the broker that coordinates the group and others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from cluster_doors import DoorNodes, behind_doors
from http_client import HttpClient

from .conftest import PatientClient, Stage

GROUPS = "/api/v1/groups"


async def commit(client: HttpClient, group: str, *offsets: dict[str, Any], **more: Any) -> tuple[int, Any]:
    answer = await client.ask("PUT", f"{GROUPS}/{group}/offsets", {"offsets": list(offsets), **more})
    return answer.status, answer.json


async def committed(client: HttpClient, group: str) -> tuple[int, Any]:
    answer = await client.ask("GET", f"{GROUPS}/{group}/offsets")
    return answer.status, answer.json


def test_commit_and_read_back(play: Callable[..., None]) -> None:
    async def test(stage: Stage) -> None:
        client = stage.client()
        await client.ask("POST", "/api/v1/topics", {"name": "orders", "partitions": 2})
        assert (await committed(client, "readers"))[0] == 404
        first, second = {"topic": "orders", "offset": 3}, {"topic": "orders", "partition": 1, "offset": 4}
        status, done = await commit(client, "readers", first, {**second, "metadata": "page 7"})
        assert (status, done["failed"]) == (200, 0)
        assert done["offsets"] == [{**first, "partition": 0}, second]
        assert await committed(client, "readers") == (
            200,
            {
                "group": "readers",
                "offsets": [
                    {**first, "partition": 0, "metadata": ""},
                    {**second, "metadata": "page 7"},
                ],
            },
        )
        await commit(client, "readers", {"topic": "orders", "offset": 1})
        assert (await committed(client, "readers"))[1]["offsets"][0]["offset"] == 1
        assert (await committed(client, "others"))[0] == 404

    play(test)


@pytest.mark.parametrize(
    ("body", "status", "told"),
    [
        ({}, 400, "'offsets'"),
        ({"offsets": []}, 400, "'offsets'"),
        ({"offsets": [7]}, 400, "must be a JSON object"),
        ({"offsets": [{"topic": "orders"}]}, 400, "'offset'"),
        ({"offsets": [{"topic": "orders", "offset": -1}]}, 400, "'offset'"),
        ({"offsets": [{"topic": "nowhere", "offset": 1}]}, 404, "nowhere"),
        ({"offsets": [{"topic": "orders", "partition": 9, "offset": 1}]}, 404, "9"),
        ({"offsets": [{"topic": "orders", "offset": 1}], "member": "m"}, 400, "'epoch'"),
        ({"offsets": [{"topic": "orders", "offset": 1}], "epoch": 1}, 400, "'member'"),
        ({"offsets": [{"topic": "orders", "offset": 1}], "member": "m", "epoch": 1}, 404, "group"),
        ({"offsets": [{"topic": "orders", "offset": 1, "metadata": "x" * 5_000}]}, 413, "metadata"),
    ],
)
def test_what_is_refused(body: Any, status: int, told: str, play: Callable[..., None]) -> None:
    async def test(stage: Stage) -> None:
        client = stage.client()
        await client.ask("POST", "/api/v1/topics", {"name": "orders"})
        answer = await client.ask("PUT", f"{GROUPS}/readers/offsets", body)
        assert (answer.status, told in answer.json["detail"]) == (status, True), answer.json
        assert (await client.ask("GET", f"{GROUPS}/readers/offsets")).status == 404

    play(test)


def test_each_offset_has_its_own_outcome(play: Callable[..., None]) -> None:
    async def test(stage: Stage) -> None:
        client = stage.client()
        await client.ask("POST", "/api/v1/topics", {"name": "orders"})
        fine = {"topic": "orders", "partition": 0, "offset": 1}
        status, done = await commit(client, "readers", fine, {**fine, "metadata": "x" * 5_000})
        assert (status, done["failed"], done["offsets"][0]) == (207, 1, fine)
        assert done["offsets"][1]["error"]["code"] == "MetadataTooLarge"

    play(test)


def test_any_broker_commits_for_any_group() -> None:
    async def play(nodes: DoorNodes) -> None:
        await nodes.create(1, "orders", 3)
        await nodes.brokers[1].group_coordinator.open()
        await nodes.converged()
        clients = [PatientClient(nodes.doors[one]) for one in (1, 2, 3)]
        for number in range(6):
            writer, reader = clients[number % 3], clients[(number + 1) % 3]
            place = {"topic": "orders", "partition": number % 3, "offset": number}
            assert (await commit(writer, f"readers-{number}", place))[0] == 200
            status, found = await committed(reader, f"readers-{number}")
            assert (status, found["offsets"]) == (200, [{**place, "metadata": ""}])

    behind_doors(play)
