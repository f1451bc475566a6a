"""Seed 003, the broker with a client library: its frames, its classes and its checklist, on one node.

Left out are the milestone of clusters and the lines about Docker.
"""

from __future__ import annotations

import io
import json
import logging
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import Consumer, Producer
from penstock.node.logs import JsonFormatter
from penstock.testing import Broker, running_broker
from seeds.commands import COMMAND, ROOT, WAIT_S_MAX, environment


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    with running_broker(tmp_path_factory.mktemp("seed-003"), log_format="json") as running:
        yield running


class Frames:
    """Length-prefixed JSON over raw TCP, written from the document alone."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), WAIT_S_MAX)
        self._reader = self._socket.makefile("rb")

    def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        payload = json.dumps({"command": command, **fields}).encode()
        self._socket.sendall(len(payload).to_bytes(4, "big") + payload)
        size = int.from_bytes(self._reader.read(4), "big")
        answer: dict[str, Any] = json.loads(self._reader.read(size))
        assert answer["ok"], answer
        return answer


# -- milestone 1: single node, in memory


def test_produce_and_consume_commands() -> None:
    with running_broker(storage="memory") as broker:
        frames = Frames(broker.json_port)
        assert frames.ask("PRODUCE", topic="orders", message="first")["offset"] == 0
        assert frames.ask("PRODUCE", topic="orders", message="second")["offset"] == 1
        (read,) = frames.ask("CONSUME", topic="orders", offset=1, max=1)["messages"]
        assert (read["offset"], read["message"]) == (1, "second")


def test_producer_and_consumer_classes_meet_the_frames(broker: Broker) -> None:
    with Producer(bootstrap=broker.bootstrap, value_serializer="json") as producer:
        assert producer.send_and_wait("classes", {"n": 1}).offset == 0
    frames = Frames(broker.json_port)
    (read,) = frames.ask("CONSUME", topic="classes", offset=0)["messages"]
    assert json.loads(read["message"]) == {"n": 1}
    frames.ask("PRODUCE", topic="classes", message='{"n": 2}')
    with Consumer("classes", bootstrap=broker.bootstrap, value_serializer="json", until_end=True) as consumer:
        assert [message.value for message in consumer] == [{"n": 1}, {"n": 2}]


def test_quickstart(broker: Broker) -> None:
    def example(name: str) -> list[str]:
        return [sys.executable, str(ROOT / "examples" / name), "quickstart", "3"]

    variables = environment(PENSTOCK_BOOTSTRAP=broker.bootstrap)
    consumer = subprocess.Popen(example("consume.py"), stdout=subprocess.PIPE, text=True, env=variables)
    subprocess.run(example("produce.py"), check=True, env=variables, timeout=WAIT_S_MAX)
    output, _ = consumer.communicate(timeout=WAIT_S_MAX)
    assert [line.split()[0] for line in output.splitlines()] == ["0", "1", "2"]


# -- milestone 2: persistence


def test_the_broker_recovers_and_commits_are_durable(broker: Broker) -> None:
    frames = Frames(broker.json_port)
    for number in range(3):
        frames.ask("PRODUCE", topic="kept", message=str(number))
    frames.ask("COMMIT", group="readers", offsets=[{"topic": "kept", "partition": 0, "offset": 2}])
    broker.kill()
    broker.start()
    frames = Frames(broker.json_port)
    (kept,) = frames.ask("OFFSETS", topics=["kept"], group="readers")["offsets"]
    assert (kept["start_offset"], kept["end_offset"], kept["committed"]) == (0, 3, 2)
    with Consumer("kept", bootstrap=broker.bootstrap, group="readers", until_end=True) as consumer:
        assert [message.value for message in consumer] == [b"2"]


@pytest.mark.parametrize(
    "strategy", [{"durability": "fsync"}, {"durability": "interval", "flush_interval_ms": 50}]
)
def test_fsync_per_write_or_periodic(strategy: dict[str, Any], tmp_path: Path) -> None:
    with running_broker(tmp_path, **strategy) as broker:
        assert Frames(broker.json_port).ask("PRODUCE", topic="orders", message="x")["offset"] == 0
        broker.kill()
        broker.start()
        assert len(Frames(broker.json_port).ask("CONSUME", topic="orders", offset=0)["messages"]) == 1


# -- milestone 3: consumer groups


def test_members_share_partitions_and_rebalance(broker: Broker) -> None:
    first, second = Frames(broker.json_port), Frames(broker.json_port)
    first.ask("CREATE_TOPIC", topic="shared", partitions=4)
    members = {"first": (first, joined(first, "first")), "second": (second, joined(second, "second"))}
    held = settle(members, {"first": 2, "second": 2})
    assert sorted(held["first"] + held["second"]) == [0, 1, 2, 3]
    second.ask("LEAVE", group="sharers", member="second")
    del members["second"]
    assert settle(members, {"first": 4})["first"] == [0, 1, 2, 3]


def joined(frames: Frames, name: str) -> dict[str, Any]:
    return frames.ask("JOIN", group="sharers", topics=["shared"], member=name)


def settle(members: dict[str, tuple[Frames, dict[str, Any]]], wanted: dict[str, int]) -> dict[str, list[int]]:
    """Heartbeats until every member holds as many partitions as it should."""
    deadline = time.monotonic() + WAIT_S_MAX
    while True:
        held = {
            name: sorted(one["partition"] for one in state["assignment"])
            for name, (_, state) in members.items()
        }
        if {name: len(numbers) for name, numbers in held.items()} == wanted:
            return held
        assert time.monotonic() < deadline, held
        for name, (frames, state) in members.items():
            state |= frames.ask(
                "HEARTBEAT",
                group="sharers",
                member=name,
                epoch=state["epoch"],
                assignment=state["assignment"],
            )


def test_commits_belong_to_group_and_partition(broker: Broker) -> None:
    frames = Frames(broker.json_port)
    frames.ask("CREATE_TOPIC", topic="scoped", partitions=2)
    frames.ask("PRODUCE", topic="scoped", partition=1, messages=[{"message": "a"}, {"message": "b"}])
    frames.ask("COMMIT", group="one", offsets=[{"topic": "scoped", "partition": 1, "offset": 2}])
    frames.ask("COMMIT", group="other", offsets=[{"topic": "scoped", "partition": 1, "offset": 1}])
    found = {
        group: [row["committed"] for row in frames.ask("OFFSETS", topics=["scoped"], group=group)["offsets"]]
        for group in ("one", "other")
    }
    assert found == {"one": [None, 2], "other": [None, 1]}


# -- milestone 5: observability


def test_structured_logging_across_broker_producer_and_consumer(broker: Broker) -> None:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.setFormatter(JsonFormatter())
    client = logging.getLogger("penstock.client")
    client.addHandler(handler)
    client.setLevel(logging.INFO)
    try:
        with Producer(bootstrap=broker.bootstrap) as producer:
            producer.send_and_wait("logged", b"x")
        with Consumer("logged", bootstrap=broker.bootstrap, group="loggers", until_end=True) as consumer:
            assert len(list(consumer)) == 1
    finally:
        client.removeHandler(handler)
        client.setLevel(logging.NOTSET)
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    told = {(line["logger"].rpartition(".")[2], line["message"]) for line in lines}
    assert {
        ("producer", "producer opened"),
        ("producer", "producer closed"),
        ("consumer", "partitions assigned"),
    } <= told
    (assigned,) = [line for line in lines if line["message"] == "partitions assigned"]
    assert assigned["partitions"] == ["logged-0"]
    for line in broker.output().splitlines():
        assert {"time", "level", "logger", "message"} <= json.loads(line).keys()


def fetched(address: str, path: str) -> str:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=WAIT_S_MAX) as answer:
        content: bytes = answer.read()
    return content.decode()


def test_metrics_tell_throughput_lag_and_sizes(broker: Broker) -> None:
    frames = Frames(broker.json_port)
    frames.ask("PRODUCE", topic="measured", messages=[{"message": "a"}, {"message": "b"}, {"message": "c"}])
    frames.ask("COMMIT", group="slow", offsets=[{"topic": "measured", "partition": 0, "offset": 1}])
    brokers = json.loads(fetched(f"127.0.0.1:{broker.http_port}", "/api/v1/cluster"))["brokers"]
    rows: dict[str, float] = defaultdict(float)
    for one in brokers:
        for line in fetched(one["addresses"]["http"], "/metrics").splitlines():
            if line[0] != "#":
                name, value = line.rsplit(" ", 1)
                rows[name] += float(value)
    assert rows['penstock_topic_records_in_total{topic="measured"}'] == 3
    assert rows['penstock_group_lag_records{group="slow",topic="measured",partition="0"}'] == 2
    assert rows['penstock_partition_size_bytes{topic="measured",partition="0"}'] > 0


def test_a_benchmark_measures_throughput(broker: Broker) -> None:
    words = [*COMMAND, "bench", "produce", "--count", "2000", "--size", "100", "-o", "json"]
    ran = subprocess.run(
        words,
        capture_output=True,
        text=True,
        env={**os.environ, **environment(PENSTOCK_BOOTSTRAP=broker.bootstrap)},
        timeout=WAIT_S_MAX,
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)
