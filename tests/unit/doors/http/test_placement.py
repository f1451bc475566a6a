"""Elections and reassignments over HTTP: what takes effect, and what is refused with which status."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from cluster_nodes import ClusterNodes, on_a_cluster
from http_client import Answer, HttpClient
from memory_broker import make_topic
from penstock.core.errors import DiskFailed
from penstock.core.machines.cluster.events import PartitionSaved

from .conftest import Stage, client_of

CLUSTER = "/api/v1/cluster"


async def send(client: HttpClient, path: str, body: Any) -> Answer:
    return await client.ask("POST", f"{CLUSTER}/{path}", json.dumps(body).encode())


async def reassign(client: HttpClient, *entries: dict[str, Any], dry_run: bool = False) -> Answer:
    return await send(
        client, f"reassignments?dry_run={str(dry_run).lower()}", {"reassignments": list(entries)}
    )


def test_replicas_are_planned_changed_and_cancelled() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 2)
        await nodes.converged()
        client = client_of(nodes.brokers[1])
        first, second = (one.replicas[0] for one in nodes.placed(1, "t"))
        others = [one for one in (1, 2, 3) if one != first]
        wanted = {"topic": "t", "partition": 0, "replicas": [first, *others]}
        move = {"topic": "t", "partition": 0, "from": [first], "to": [first, *others]}
        answer = await reassign(client, wanted, dry_run=True)
        assert answer.json == {"started": False, "moves": [move]}
        assert not any(one.is_moving for one in nodes.placed(1, "t"))
        assert (await reassign(client, wanted)).json == {"started": True, "moves": [move]}
        assert sorted(nodes.placed(1, "t")[0].adding) == others
        assert (await reassign(client, wanted)).json["moves"] == [], "it is under way"
        assert (await reassign(client, {"topic": "t", "cancel": True})).json["moves"] == [
            {"topic": "t", "partition": 0, "from": [first, *others], "to": [first]}
        ]
        moves = (await reassign(client, {"topic": "t", "replication_factor": 2}, dry_run=True)).json["moves"]
        assert [(one["from"], one["to"][:1], len(one["to"])) for one in moves] == [
            ([first], [first], 2),
            ([second], [second], 2),
        ]

    on_a_cluster(play)


@pytest.mark.parametrize(
    ("entry", "status", "code"),
    [
        ({"topic": "t", "replicas": [1, 9]}, 422, "InvalidAssignment"),
        ({"topic": "t", "replicas": [1, 1]}, 422, "InvalidAssignment"),
        ({"topic": "t", "replication_factor": 4}, 422, "InvalidReplication"),
        ({"topic": "t", "partition": 0, "cancel": True}, 404, "NoReassignment"),
        ({"topic": "t", "partition": 7, "cancel": True}, 404, "UnknownTopic"),
        ({"topic": "u", "replicas": [1]}, 404, "UnknownTopic"),
        ({"topic": "t"}, 400, "InvalidRequest"),
        ({"topic": "t", "replicas": [1], "cancel": True}, 400, "InvalidRequest"),
        ({"topic": "t", "replicas": []}, 400, "InvalidRequest"),
        ({"topic": "t", "replicas": ["1"]}, 400, "InvalidRequest"),
        ({"topic": "t", "replication_factor": 0}, 400, "InvalidRequest"),
        ({"topic": "t", "cancel": False}, 400, "InvalidRequest"),
        ({"topic": "t", "to": [1]}, 400, "InvalidRequest"),
    ],
)
def test_a_refused_reassignment_changes_nothing(entry: dict[str, Any], status: int, code: str) -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 1)
        await nodes.create(1, "other", 1)
        client = client_of(nodes.brokers[1])
        fine = {"topic": "other", "replicas": [1, 2, 3]}
        answer = await reassign(client, fine, entry)
        assert (answer.status, answer.json["code"]) == (status, code), answer.json
        assert not any(one.is_moving for one in nodes.placed(1, "other"))

    on_a_cluster(play)


def test_a_partition_is_reassigned_once_per_request() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 1)
        twice = {"topic": "t", "replicas": [1]}, {"topic": "t", "partition": 0, "replicas": [2]}
        answer = await reassign(client_of(nodes.brokers[1]), *twice)
        assert (answer.status, answer.json["code"]) == (422, "InvalidAssignment")

    on_a_cluster(play)


async def place(nodes: ClusterNodes, **changes: Any) -> None:
    (present,) = nodes.placed(1, "t")
    wanted = present._replace(partition_epoch=present.partition_epoch + 1, **changes)
    await nodes.brokers[1].change(lambda catalog: [PartitionSaved(wanted)])
    await nodes.converged()


def test_the_preferred_replica_is_elected() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 1)
        await place(nodes, replicas=(1, 2, 3), isr=(1, 2), leader=2, leader_epoch=5)
        client = client_of(nodes.brokers[3])
        elected = {"topic": "t", "partition": 0, "elected": True, "leader": 1}
        assert (await send(client, "elections", {})).json == {
            "kind": "preferred",
            "failed": 0,
            "elections": [elected],
        }
        again = await send(client, "elections", {"partitions": [{"topic": "t"}]})
        assert (again.status, again.json["elections"]) == (200, [{**elected, "elected": False}])
        await place(nodes, isr=(2,), leader=2, leader_epoch=9)
        refused = await send(client, "elections", {"partitions": [{"topic": "t", "partition": 0}]})
        assert (refused.status, refused.json["failed"]) == (207, 1)
        assert refused.json["elections"][0]["error"]["code"] == "PreferredLeaderUnavailable"

    on_a_cluster(play)


def test_an_unclean_election_is_asked_for_by_name() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 1)
        await place(nodes, replicas=(1, 2, 3), isr=(), leader=-1, elr=(), last_leader=-1)
        client = client_of(nodes.brokers[1])
        answer = await send(client, "elections", {"kind": "unclean"})
        (elected,) = answer.json["elections"]
        assert (answer.status, elected["elected"], elected["leader"]) == (200, True, 1)

    on_a_cluster(play)


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"kind": "any"}, 400, "InvalidRequest"),
        ({"kind": {}}, 400, "InvalidRequest"),
        ({"partitions": []}, 400, "InvalidRequest"),
        ({"partitions": [{"partition": 1}]}, 400, "InvalidRequest"),
        ({"partitions": [{"topic": "t", "partition": -1}]}, 400, "InvalidRequest"),
        ({"partitions": [{"topic": "u"}]}, 404, "UnknownTopic"),
    ],
)
def test_elections_that_are_refused(
    play: Callable[..., None], body: dict[str, Any], status: int, code: str
) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "t")
        answer = await send(stage.client(), "elections", body)
        assert (answer.status, answer.json["code"]) == (status, code)

    play(test)


def test_a_single_broker_has_nobody_to_elect(play: Callable[..., None]) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "t", partitions=2)
        client = stage.client()
        stage.broker.partition("t", 1).fail(DiskFailed("gone"))
        answer = await send(client, "elections", {"kind": "unclean", "partitions": [{"topic": "t"}]})
        assert (answer.status, answer.json["failed"]) == (207, 1)
        assert [one["elected"] for one in answer.json["elections"]] == [False, False]
        answer = await reassign(client, {"topic": "t", "replicas": [1]})
        assert (answer.status, answer.json["code"]) == (409, "SingleBroker")

    play(test)
