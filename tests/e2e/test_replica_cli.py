"""Replicas as an operator handles them with the commands: three brokers as processes, one of them killed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conditions import until
from penstock import Producer
from penstock.testing import Cluster, running_cluster

SECONDS_MAX = 120
OFF = dict.fromkeys(("text_port", "json_port", "queue_port"), "off")


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(3, tmp_path, session_ms=3_000, **OFF) as found:
        yield found


def run(cluster: Cluster, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    ran = subprocess.run(
        [sys.executable, "-m", "penstock", *words, "--bootstrap", cluster.bootstrap],
        capture_output=True,
        text=True,
        timeout=SECONDS_MAX,
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    return ran


def shown(cluster: Cluster, *words: str) -> Any:
    return json.loads(run(cluster, *words, "-o", "json").stdout)


def partitions(cluster: Cluster, *words: str) -> list[Any]:
    found: list[Any] = shown(cluster, "cluster", "topics", *words)["partitions"]
    return found


def test_replicas_from_creation_to_reassignment(cluster: Cluster) -> None:
    created = run(cluster, "topic", "create", "orders", "--partitions", "3", "--replication-factor", "3")
    assert "share a machine" in created.stderr and created.stdout == "orders: created\n"
    (row,) = shown(cluster, "topic", "create", "pairs", "--replication-factor", "2")
    assert any("two replicas with min.insync.replicas=1" in one for one in row["warnings"])
    refused = run(cluster, "topic", "create", "many", "--replication-factor", "4", code=5)
    assert "INVALID_REPLICATION_FACTOR" in refused.stderr
    with Producer(bootstrap=cluster.bootstrap) as producer:
        for number in range(300):
            producer.send("orders", b"%d" % number)

    (described,) = shown(cluster, "topic", "describe", "orders")
    assert all(len(one["in_sync"]) == 3 and one["elr"] == [] for one in described["partitions"])
    assert partitions(cluster, "--under-replicated") == []

    victim = described["partitions"][0]["leader"]
    cluster.broker(victim).kill()
    until(
        lambda: len(partitions(cluster, "orders", "--under-replicated")) == 3,
        "all three partitions have lost a replica",
    )
    status = run(cluster, "cluster", "status").stdout
    assert "under-replicated" in status and "penstock cluster topics --under-replicated" in status
    assert partitions(cluster, "orders", "--under-min-isr") == [], "two of three are enough"
    assert len(partitions(cluster, "orders", "--at-min-isr")) == 3
    refused = run(cluster, "cluster", "elect", "orders:0", code=5)
    assert "fenced, stopping, or not in sync" in refused.stderr

    cluster.broker(victim).start()
    until(lambda: not partitions(cluster, "--under-replicated"), "the broker has caught up")
    run(cluster, "cluster", "elect", "orders")
    assert all(one["leader"] == one["replicas"][0] for one in partitions(cluster, "orders"))

    run(cluster, "cluster", "reassign", "orders", "--factor", "2", "--yes", "--wait")
    assert [len(one["replicas"]) for one in partitions(cluster, "orders")] == [2, 2, 2]
    moves = cluster.home / "moves.json"
    wanted = {"topic": "orders", "partition": 0, "replicas": [3, 1, 2]}
    moves.write_text(json.dumps({"version": 1, "partitions": [wanted]}))
    planned = shown(cluster, "cluster", "reassign", "--file", str(moves), "--dry-run")
    assert planned["moves"][0]["to"] == [3, 1, 2] and planned["bytes"] > 0
    run(cluster, "cluster", "reassign", "--file", str(moves), "--yes", "--wait")
    assert partitions(cluster, "orders")[0]["replicas"] == [3, 1, 2]


def test_the_last_resort(cluster: Cluster) -> None:
    """The only broker of a partition is gone: nobody can be elected before it is back."""
    run(cluster, "topic", "create", "orders", "--partitions", "1", "--replication-factor", "1")
    (one,) = partitions(cluster, "orders")
    holder = one["leader"]
    cluster.broker(holder).kill()
    until(lambda: partitions(cluster, "--offline"), "nobody leads it")
    asked = run(cluster, "cluster", "elect", "orders", "--unclean", code=2)
    assert "lost" in asked.stderr and "--yes" in asked.stderr
    refused = run(cluster, "cluster", "elect", "orders", "--unclean", "--yes", code=5)
    assert f"none of the brokers [{holder}] is available; start one" in refused.stderr
    cluster.broker(holder).start()
    until(lambda: not partitions(cluster, "--offline"), "it leads again")
