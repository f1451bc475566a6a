"""The leader of a replicated partition is killed: another broker leads, and no acknowledged record is lost."""

from __future__ import annotations

import json
import os
import signal
import statistics
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from confluent_kafka import Producer as RawProducer

from conditions import until
from e2e.cluster_up import LocalUp, cluster_up
from penstock import Admin, Consumer

KILLS = 3
QUICK_CLIENT = {"retry.backoff.ms": 20, "reconnect.backoff.ms": 20, "reconnect.backoff.max.ms": 100}


def partition(up: LocalUp) -> dict[str, Any]:
    """Partition 0 as a running broker knows it."""
    broker = next(one for one in up.ready["brokers"] if up.child(f"broker-{one['node_id']}"))
    with urlopen(f"http://127.0.0.1:{broker['http_port']}/api/v1/cluster/topics") as answer:
        partitions = json.load(answer)["partitions"]
    found: dict[str, Any] = next(one for one in partitions if one["topic"] == "orders")
    return found


def send(producer: RawProducer, value: str) -> None:
    """Returns once the record is acknowledged by all in-sync replicas."""
    errors: list[object] = []
    producer.produce("orders", value, partition=0, on_delivery=lambda error, _: errors.append(error))
    assert producer.flush(60) == 0 and errors == [None], errors


def test_writes_go_on_when_the_leader_is_killed(tmp_path: Path, capsys: Any) -> None:
    with cluster_up(tmp_path, brokers=3) as up:
        bootstrap = up.ready["bootstrap"]
        with Admin(bootstrap=bootstrap) as admin:
            admin.create_topic("orders", 1)
        assert len(partition(up)["replicas"]) == 3
        producer = RawProducer({"bootstrap.servers": bootstrap, "acks": "all", **QUICK_CLIENT})
        sent, pauses_s = 0, []
        for _ in range(KILLS):
            for _ in range(50):
                send(producer, str(sent))
                sent += 1
            leader = partition(up)["leader"]
            pid = up.child(f"broker-{leader}")["pid"]
            os.kill(pid, signal.SIGKILL)
            killed_s = time.perf_counter()
            send(producer, str(sent))
            pauses_s.append(time.perf_counter() - killed_s)
            sent += 1
            up.await_restart(f"broker-{leader}", pid)
            until(lambda: len(partition(up)["isr"]) == 3, "the broker has not caught up")
        with capsys.disabled():
            each = ", ".join(f"{one * 1000:.0f}" for one in pauses_s)
            print(
                f"\nwrites after a leader's death: {each} ms, median {statistics.median(pauses_s) * 1000:.0f} ms"
            )
        with Consumer("orders", bootstrap=bootstrap, until_end=True) as consumer:
            read = [int(message.value or b"") for message in consumer]
        assert sorted(set(read)) == list(range(sent)), "an acknowledged record is missing"
        assert up.end() == 0
