"""Topics, groups, health and metrics over HTTP, each path with what it changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from memory_broker import make_topic
from penstock.core.errors import DiskFailed
from penstock.core.model import TopicPartition
from penstock.node.coordinators.committed import NO_RETENTION, Committer, NewOffset

from .conftest import Stage

Play = Callable[..., None]
TOPICS = "/api/v1/topics"


def test_the_life_of_a_topic(play: Play) -> None:
    async def test(stage: Stage) -> None:
        client = stage.client()
        made = await client.ask(
            "POST", TOPICS, {"name": "a.b", "partitions": 2, "configs": {"retention.ms": "1000"}}
        )
        assert (made.status, made.headers["location"]) == (201, f"{TOPICS}/a.b")
        assert (made.json["configs"]["retention.ms"], len(made.json["partitions"])) == ("1000", 2)
        assert (await client.ask("POST", TOPICS, {"name": "a.b"})).status == 409
        assert (await client.ask("POST", TOPICS, {"name": "x", "replication_factor": 3})).status == 422
        listed = (await client.ask("GET", TOPICS)).json["topics"]
        assert listed == [{"name": "a.b", "partitions": 2, "internal": False}]

        change = {"partitions": 3, "configs": {"cleanup.policy": "compact", "retention.ms": None}}
        changed = (await client.ask("PATCH", f"{TOPICS}/a.b", change)).json
        assert (changed["configs"]["cleanup.policy"], changed["configs"]["retention.ms"]) == (
            "compact",
            "604800000",
        )
        assert [one["partition"] for one in changed["partitions"]] == [0, 1, 2]
        again = await client.ask("PATCH", f"{TOPICS}/a.b", {"partitions": 3})
        assert again.status == 200, "saying what is so already changes nothing"
        assert (await client.ask("PATCH", f"{TOPICS}/a.b", {"partitions": 1})).status == 422
        assert (await client.ask("PATCH", f"{TOPICS}/a.b", {"configs": {"wrong": "1"}})).status == 422
        assert (await client.ask("PATCH", f"{TOPICS}/a.b", {"configs": {"retention.ms": 5}})).status == 400

        assert (await client.ask("DELETE", f"{TOPICS}/a.b")).status == 204
        assert (await client.ask("DELETE", f"{TOPICS}/a.b")).status == 404

    play(test)


def test_a_change_that_is_half_wrong_changes_nothing(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders")
        client = stage.client()
        half = {"partitions": 5, "configs": {"retention.ms": "never"}}
        assert (await client.ask("PATCH", f"{TOPICS}/orders", half)).status == 422
        assert len((await client.ask("GET", f"{TOPICS}/orders")).json["partitions"]) == 1

    play(test)


async def commit(stage: Stage, group: str, offset: int) -> None:
    group_coordinator = stage.broker.group_coordinator
    await group_coordinator.open()
    outcomes: list[Any] = []
    new = NewOffset(TopicPartition("orders", 0), offset, -1, "")
    group_coordinator.committed.commit(group, Committer(), [new], NO_RETENTION, outcomes.append)
    await group_coordinator.groups.shard_of(group).partition.sync_dirty()
    assert outcomes == [[None]]


def test_groups_and_their_lag(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders", 2)
        client = stage.client()
        body = {"topic": "orders", "partition": 0, "messages": [{"value": str(n)} for n in range(5)]}
        await client.ask("POST", "/api/v1/messages/batch", body)
        assert (await client.ask("GET", "/api/v1/groups")).json == {"groups": []}
        await commit(stage, "my group", 2)
        listed = (await client.ask("GET", "/api/v1/groups")).json["groups"]
        assert listed == [{"group": "my group", "kind": "classic", "state": "Empty"}]
        described = (await client.ask("GET", "/api/v1/groups/my%20group")).json
        assert (described["group"], described["members"]) == ("my group", [])
        lag = (await client.ask("GET", "/api/v1/groups/my%20group/lag")).json
        assert lag["lag"] == 3
        assert lag["partitions"] == [
            {"topic": "orders", "partition": 0, "committed_offset": 2, "end_offset": 5, "lag": 3},
            {"topic": "orders", "partition": 1, "committed_offset": None, "end_offset": 0, "lag": 0},
        ]
        assert (await client.ask("GET", "/api/v1/groups/other/lag")).status == 404
        topics = (await client.ask("GET", f"{TOPICS}?internal=true")).json["topics"]
        assert [one["name"] for one in topics] == ["__consumer_offsets", "orders"]

    play(test)


def test_health_tells_what_is_offline(play: Play) -> None:
    async def test(stage: Stage) -> None:
        await make_topic(stage.broker, "orders")
        client = stage.client()
        assert (await client.ask("GET", "/healthz")).json == {"status": "alive"}
        assert (await client.ask("GET", "/readyz")).json == {"status": "ready", "offline_partitions": []}
        stage.broker.partition("orders", 0).fail(DiskFailed("gone"))
        ready = await client.ask("GET", "/readyz")
        assert (ready.status, ready.json["offline_partitions"]) == (200, ["orders-0"])
        refused = await client.ask("POST", "/api/v1/messages", {"topic": "orders", "value": "x"})
        assert (refused.status, refused.json["code"]) == (503, "Offline")
        stage.doors.listeners["http"].close()
        stopping = await client.ask("GET", "/readyz")
        assert (stopping.status, stopping.json["status"]) == (503, "stopping")

    play(test)


def test_metrics_count_what_was_asked(play: Play) -> None:
    async def test(stage: Stage) -> None:
        client = stage.client()
        await client.ask("POST", "/api/v1/messages", {"topic": "orders", "value": "x"})
        await client.ask("GET", f"{TOPICS}/orders/partitions/0/messages")
        await client.ask("GET", "/nowhere")
        answer = await client.ask("GET", "/metrics")
        assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
        samples = {
            (sample.name, *sample.labels.values()): sample.value
            for family in text_string_to_metric_families(answer.body.decode())
            for sample in family.samples
        }
        for call in ("publish", "read", "unknown"):
            assert samples["penstock_request_seconds_count", "http", call] == 1
            assert samples["penstock_request_seconds_sum", "http", call] > 0
        assert samples["penstock_topic_records_in_total", "orders"] == 1
        assert samples["penstock_topic_bytes_out_total", "orders"] == 1
        assert samples["penstock_connections", "http"] == 1
        await stage.client().hang_up()
        assert stage.broker.runtime.meters.door("http").connections == 1
        assert stage.broker.runtime.meters.door("http").opened == 2

    play(test)
