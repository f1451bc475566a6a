"""Partitions move under real clients, with brokers killed in the middle: nothing is lost, nothing is doubled."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator

import pytest

from conditions import until
from e2e.move_clients import (
    GroupReader,
    Writer,
    at_work,
    commit_start,
    leaders,
    ongoing,
    raw_cluster,
    reassign,
)
from penstock import Admin
from penstock.client.errors import ClientError
from penstock.client.raw.cluster import Cluster
from penstock.testing import Cluster as Brokers
from penstock.testing import running_cluster
from penstock.wire.kafka import ErrorCode

PARTITIONS = 3
TOPIC = "orders"


@pytest.fixture
def brokers() -> Iterator[Brokers]:
    with running_cluster(brokers=3, session_ms=3_000) as cluster:
        with Admin(bootstrap=cluster.bootstrap) as admin:
            admin.create_topic(TOPIC, PARTITIONS)
        yield cluster


def settled(cluster: Cluster) -> None:
    """Every partition has arrived and has a leader."""

    def is_settled() -> bool:
        try:
            return not ongoing(cluster) and min(leaders(cluster, TOPIC).values()) > 0
        except ClientError:
            return False

    until(is_settled, "the moves did not end")


def rotate(cluster: Cluster) -> None:
    """Every partition moves to the next broker."""
    targets = {index: [leader % 3 + 1] for index, leader in leaders(cluster, TOPIC).items()}
    assert set(reassign(cluster, TOPIC, targets)) == {0}


@pytest.mark.parametrize(
    "settings",
    [{"acks": "1", "enable.idempotence": False}, {"acks": "all", "enable.idempotence": True}],
    ids=["acks=1", "idempotent"],
)
def test_clients_run_on_through_moves(brokers: Brokers, settings: dict[str, object]) -> None:
    cluster = raw_cluster(brokers.bootstrap)
    commit_start(brokers.bootstrap, "readers", TOPIC, PARTITIONS)
    writer = Writer(brokers.bootstrap, TOPIC, PARTITIONS, **settings)
    reader = GroupReader(brokers.bootstrap, TOPIC, PARTITIONS)
    with at_work(reader):
        with at_work(writer):
            for _ in range(4):
                before = min(len(one) for one in writer.acked)
                rotate(cluster)
                settled(cluster)
                until(
                    lambda before=before: min(len(one) for one in writer.acked) > before + 50,
                    "writes do not go on",
                )
        assert not writer.failed
        assert [len(one) for one in writer.acked] == writer.sent
        until(lambda: all(map(len, reader.read)) and _is_all_read(reader, writer), "records are missing")
    assert not reader.errors, "a consumer was never told to reset its position"
    assert [sorted(set(one)) for one in reader.read] == [list(range(count)) for count in writer.sent]
    assert everything(brokers.bootstrap) == [list(range(count)) for count in writer.sent], (
        "each once, in order"
    )


def _is_all_read(reader: GroupReader, writer: Writer) -> bool:
    return all(len(set(read)) == count for read, count in zip(reader.read, writer.sent, strict=True))


def everything(bootstrap: str) -> list[list[int]]:
    """All records of all partitions, as they lie in the logs."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "checker",
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "log_level": 0,
        }
    )
    consumer.assign([TopicPartition(TOPIC, index, 0) for index in range(PARTITIONS)])
    found: list[list[int]] = [[] for _ in range(PARTITIONS)]
    ended: set[int] = set()

    def read() -> bool:
        message = consumer.poll(0.1)
        if message is not None and message.error() is not None:
            ended.add(message.partition() or 0)
        elif message is not None:
            found[message.partition() or 0].append(int(message.value() or b""))
        return len(ended) == PARTITIONS

    until(read, "the end was not reached")
    consumer.close()
    return found


@pytest.mark.parametrize("who", ["source", "target"])
def test_kill_9_in_the_middle_of_a_move(brokers: Brokers, who: str) -> None:
    cluster = raw_cluster(brokers.bootstrap)
    writer = Writer(brokers.bootstrap, TOPIC, PARTITIONS, acks="all", **{"enable.idempotence": True})
    with at_work(writer):
        until(lambda: min(len(one) for one in writer.acked) > 300, "nothing is written")
        source = leaders(cluster, TOPIC)[0]
        target = source % 3 + 1
        assert set(reassign(cluster, TOPIC, {0: [target]})) == {0}
        victim = brokers.broker(source if who == "source" else target)
        victim.kill()
        victim.start()
        settled(cluster)
        assert leaders(cluster, TOPIC)[0] == target
    assert not writer.failed
    found = everything(brokers.bootstrap)
    assert found == [list(range(count)) for count in writer.sent]


def test_what_cannot_be_reassigned(brokers: Brokers) -> None:
    cluster = raw_cluster(brokers.bootstrap)
    leader = leaders(cluster, TOPIC)[0]
    assert reassign(cluster, TOPIC, {0: [leader, leader]})[1] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassign(cluster, TOPIC, {0: [9]})[1] == ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert reassign(cluster, TOPIC, {0: None})[1] == ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    assert reassign(cluster, TOPIC, {7: [1]})[1] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not ongoing(cluster)


# -- the command line


def command(brokers: Brokers, *words: str, code: int = 0) -> dict[str, object]:
    """The JSON output of a command of `penstock cluster`."""
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "cluster", *words, "--bootstrap", brokers.bootstrap, "-o", "json"],
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return dict(json.loads(done.stdout)) if done.stdout.strip() else {"error": done.stderr}


def held(brokers: Brokers) -> dict[int, int]:
    content: dict[str, list[dict[str, int]]] = command(brokers, "status")  # type: ignore[assignment]
    return {one["id"]: one["replicas"] for one in content["brokers"]}


def test_rebalance_drain_and_decommission(brokers: Brokers) -> None:
    cluster = raw_cluster(brokers.bootstrap)
    assert set(reassign(cluster, TOPIC, {index: [1] for index in range(PARTITIONS)})) == {0}
    settled(cluster)
    plan = command(brokers, "rebalance", "--dry-run")
    assert plan["started"] is False and len(plan["moves"]) == 2  # type: ignore[arg-type]
    assert set(leaders(cluster, TOPIC).values()) == {1}, "a dry run moves nothing"
    assert "--yes" in str(command(brokers, "rebalance", code=2)["error"])
    assert len(command(brokers, "rebalance", "--yes", "--wait")["moves"]) == 2  # type: ignore[arg-type]
    assert held(brokers) == {1: 1, 2: 1, 3: 1}
    assert command(brokers, "moves") == {"moves": []}

    command(brokers, "drain", "2", "--yes", "--wait")
    assert held(brokers)[2] == 0
    command(brokers, "drain", "2", "--undo")
    assert command(brokers, "rebalance", "--yes", "--wait")["started"] is True

    assert command(brokers, "decommission", "3", "--yes") == {"broker": 3, "state": "empty"}
    brokers.broker(3).stop()
    until(lambda: "fenced" in str(command(brokers, "status")), "the broker is not fenced")
    assert command(brokers, "decommission", "3") == {"broker": 3, "state": "removed"}
    assert 3 not in held(brokers)
    assert "broker 3 is not registered" in str(command(brokers, "drain", "3", "--yes", code=4)["error"])


def test_a_joining_broker_takes_its_share(brokers: Brokers) -> None:
    with Admin(bootstrap=brokers.bootstrap) as admin:
        admin.create_topic("many", 12)
    brokers.add_broker()
    until(lambda: held(brokers).get(4, 0) >= 3, "the new broker got nothing")
    until(lambda: command(brokers, "moves") == {"moves": []}, "moves do not end")
