"""`penstock bench` against a running broker: it sends what it says it sent, and reads it back."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock import BrokerClient
from penstock.testing import Broker, running_broker

SOURCE_DIR = Path(__file__).resolve().parents[2] / "src"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with running_broker(storage="memory") as running:
        yield running


def bench(bootstrap: str, *arguments: str, code: int = 0) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "penstock", "bench", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE_DIR), "PENSTOCK_BOOTSTRAP": bootstrap},
        timeout=120,
    )
    output = ran.stdout.decode() + ran.stderr.decode()
    assert ran.returncode == code, output
    assert "Traceback" not in output
    return output


def figures(bootstrap: str, *arguments: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(bench(bootstrap, *arguments, "-o", "json"))
    return found


def assert_rising(latency_us: dict[str, int]) -> None:
    assert list(latency_us) == ["p50", "p90", "p99", "p99.9", "p99.99", "max"]
    assert sorted(latency_us.values()) == list(latency_us.values())
    assert latency_us["p50"] > 0


def test_what_is_produced_is_consumed(broker: Broker) -> None:
    asked = ("--topic", "filled", "--count", "3000")
    sent = figures(broker.bootstrap, "produce", *asked, "--size", "200", "--partitions", "3")
    assert (sent["messages"], sent["payload_bytes"], sent["failed"]) == (3_000, 600_000, 0)
    assert_rising(sent["latency_us"])
    read = figures(broker.bootstrap, "consume", *asked)
    assert (read["messages"], read["payload_bytes"]) == (3_000, 600_000)
    assert "consume: 3,003 messages" in bench(
        broker.bootstrap, "consume", "--topic", "filled", "--count", "9999"
    )


def test_a_rate_is_kept(broker: Broker) -> None:
    sent = figures(broker.bootstrap, "produce", "--topic", "paced", "--count", "200", "--rate", "400")
    assert sent["rate_asked"] == 400
    assert sent["seconds"] >= 199 / 400


def test_every_message_is_timed_from_end_to_end(broker: Broker) -> None:
    seen = figures(
        broker.bootstrap, "e2e", "--topic", "tailed", "--count", "300", "--rate", "500", "--partitions", "2"
    )
    assert seen["messages"] == 300
    assert_rising(seen["latency_us"])


def test_workers_share_a_subscription_and_leave_none_behind(broker: Broker) -> None:
    asked = ("--count", "300", "--workers", "4", "--topic", "worked")
    for _ in range(2):
        done = figures(broker.bootstrap, "queue", *asked, "--queue", f"127.0.0.1:{broker.queue_port}")
        assert (done["messages"], done["payload_bytes"]) == (300, 300 * 256)
    with BrokerClient(port=broker.queue_port) as client:
        assert client.list_subscriptions() == []


def test_wrong_usage_is_told_in_words(broker: Broker) -> None:
    assert "Topic nowhere does not exist" in bench(broker.bootstrap, "consume", "--topic", "nowhere", code=1)
    assert "--size must be 8 or more" in bench(broker.bootstrap, "produce", "--size", "4", code=1)
    assert "No broker answers" in bench("127.0.0.1:1", "consume", code=3)
    assert "Row nonsense does not exist; choose from ingest-small," in bench(
        broker.bootstrap, "compare", "nonsense", code=2
    )
    assert "does not contain the markers" in bench(broker.bootstrap, "compare", "--page", __file__, code=2)
    assert "not of the form name=value" in bench(broker.bootstrap, "consume", "--client-config", "x", code=2)
