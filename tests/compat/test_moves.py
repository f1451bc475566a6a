"""Kafka's own tool moves partitions under Kafka's own Java producer and consumer: nothing is lost or doubled."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from compat.kafka_tools import CONFIGS, REASSIGN, run_tools
from compat.roster import do_without
from compat.runtimes import java_command
from compat.vocabulary import MissingRuntime
from conditions import until
from penstock import Admin
from penstock.testing import Cluster, running_cluster

TOPIC = "moved"
PARTITIONS = 3
RATE = "1000000"


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster(brokers=3) as brokers:
        with Admin(bootstrap=brokers.bootstrap) as admin:
            admin.create_topic(TOPIC, PARTITIONS)
        yield brokers


class JavaClient:
    """One of Kafka's verifiable clients. It prints what it does as JSON, line by line."""

    def __init__(self, program: str, bootstrap: str, *arguments: str) -> None:
        command = java_command(program="Tools", home="tools")
        tool = f"org.apache.kafka.tools.{program}"
        self.printed: list[dict[str, Any]] = []
        self._process = subprocess.Popen(
            [*command[:-1], tool, "--bootstrap-server", bootstrap, "--topic", TOPIC, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith("{"):
                self.printed.append(json.loads(line))

    def named(self, name: str) -> list[dict[str, Any]]:
        return [one for one in list(self.printed) if one["name"] == name]

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()
        self._thread.join()


@pytest.fixture
def clients(cluster: Cluster, tmp_path: Path) -> Iterator[tuple[JavaClient, JavaClient]]:
    config = tmp_path / "producer.properties"
    config.write_text("retries=2147483647\n")  # its default is 0, unlike that of every other producer
    arguments = ("--throughput", "300", "--acks", "-1", "--producer.config", str(config))
    try:
        producer = JavaClient("VerifiableProducer", cluster.bootstrap, *arguments)
    except MissingRuntime as missing:
        do_without(missing)
    consumer = JavaClient(
        "VerifiableConsumer",
        cluster.bootstrap,
        "--group-id",
        "java",
        "--reset-policy",
        "earliest",
        "--verbose",
    )
    try:
        yield producer, consumer
    finally:
        producer.stop()
        consumer.stop()


def plan(directory: Path, shift: int) -> str:
    """A file that names other brokers for all partitions."""
    partitions = [
        {"topic": TOPIC, "partition": index, "replicas": [(index + shift) % 3 + 1]}
        for index in range(PARTITIONS)
    ]
    path = directory / f"plan-{shift}.json"
    path.write_text(json.dumps({"version": 1, "partitions": partitions}))
    return str(path)


def test_kafkas_tool_moves_partitions_under_java_clients(
    cluster: Cluster, clients: tuple[JavaClient, JavaClient], tmp_path: Path
) -> None:
    producer, consumer = clients
    until(lambda: len(producer.named("producer_send_success")) > 500, "the producer does not write")
    for shift in range(3):
        path = ("--reassignment-json-file", plan(tmp_path, shift))
        printed = run_tools(
            cluster.bootstrap,
            {
                "execute": (REASSIGN, *path, "--execute", "--throttle", RATE),
                "list": (REASSIGN, "--list"),
                "rate": (CONFIGS, "--entity-type", "brokers", "--entity-name", "1", "--describe"),
            },
        )
        assert "Successfully started partition reassignments" in printed["execute"].text, printed
        assert f"follower.replication.throttled.rate={RATE}" in printed["rate"].text, printed["rate"]

        def is_complete(path: tuple[str, ...] = path) -> bool:
            text = run_tools(cluster.bootstrap, {"verify": (REASSIGN, *path, "--verify")})["verify"].text
            return text.count("is completed") == PARTITIONS and "Clearing broker-level throttles" in text

        until(is_complete, "the moves did not end")
        before = len(producer.named("producer_send_success"))
        until(
            lambda before=before: len(producer.named("producer_send_success")) > before + 200,
            "writes do not go on",
        )
    producer.stop()
    acked = {int(one["value"]) for one in producer.named("producer_send_success")}
    assert producer.named("producer_send_error") == []
    until(
        lambda: len({one["value"] for one in consumer.named("record_data")}) >= len(acked),
        "records are missing",
    )
    read = [int(one["value"]) for one in consumer.named("record_data")]
    assert set(read) == acked
    placed = {(one["partition"], one["offset"]) for one in consumer.named("record_data")}
    assert len(placed) == len(acked), "every record is in the log once"
