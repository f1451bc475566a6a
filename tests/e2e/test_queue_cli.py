"""The queue door's commands in real processes, and Kafka's clients on the other side of the same topic."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from conditions import until
from penstock import BrokerClient, Consumer, Producer
from penstock.client.queue import Message, Reject
from penstock.testing import Broker, running_broker

RUN_S_MAX = 60


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    home: Path = tmp_path_factory.mktemp("broker")
    with running_broker(home) as running:
        yield running


def penstock(broker: Broker, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", *words, "--queue", f"127.0.0.1:{broker.queue_port}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=RUN_S_MAX, check=False)


def test_a_subscription_is_looked_after(broker: Broker) -> None:
    with BrokerClient("127.0.0.1", broker.queue_port) as client:
        client.create_topic("looked")
        client.create_subscription("after", "looked", hold_ms=7_000)

        def handle(message: Message) -> None:
            raise Reject("no")

        client.publish_text("looked", "bad")
        client.subscribe_to_subscription("after", handle)
        until(
            lambda: client.describe_subscription("after")["partitions"][0]["settled_offset"] == 1,
            "the message is not given up",
        )
        client.unsubscribe_from_subscription("after")
    listed = penstock(broker, "subscription", "list")
    assert "after" in listed.stdout and "7000" in listed.stdout, listed.stderr
    described = json.loads(penstock(broker, "subscription", "describe", "after", "-o", "json").stdout)
    assert (described["topic"], described["partitions"][0]["end_offset"]) == ("looked", 1)
    assert "looked.dlq" in penstock(broker, "subscription", "describe", "after").stdout
    assert penstock(broker, "subscription", "redrive", "after").stdout.startswith("1 dead letter sent back")
    shown = penstock(broker, "join-subscription", "after", "--count", "1", "--format", r"%o %v\n")
    assert (shown.returncode, shown.stdout) == (0, "1 bad\n"), shown.stderr
    assert penstock(broker, "subscription", "delete", "after").stdout == "deleted subscription after\n"
    assert json.loads(penstock(broker, "subscription", "list", "-o", "json").stdout) == []


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("join-subscription", "nobody"), 4, "There is no subscription 'nobody'; create it first."),
        (("create-subscription", "s", "nowhere"), 4, "There is no topic 'nowhere'."),
        (("create-topic", "a b"), 5, "may contain only"),
        (("publish", "t", "x", "--property", "odd"), 2, "not of the form name=value"),
        (("subscribe", "nowhere", "--offset", "x"), 2, "not a valid integer"),
    ],
)
def test_what_is_wrong_is_one_sentence(broker: Broker, words: tuple[str, ...], code: int, said: str) -> None:
    done = penstock(broker, *words)
    assert done.returncode == code and said in done.stderr, done.stderr


def test_nobody_there_is_exit_code_3() -> None:
    command = [sys.executable, "-m", "penstock", "publish", "t", "x", "--queue", "127.0.0.1:1"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S_MAX, check=False)
    assert done.returncode == 3 and "queue port" in done.stderr
    assert penstock_at("nonsense").returncode == 2


def penstock_at(address: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", "publish", "t", "x", "--queue", address]
    return subprocess.run(command, capture_output=True, text=True, timeout=RUN_S_MAX, check=False)


def test_kafka_s_clients_and_the_queue_see_the_same_messages(broker: Broker) -> None:
    got: list[Message] = []
    with BrokerClient("127.0.0.1", broker.queue_port) as client:
        client.create_topic("both", 1)
        assert client.publish("both", b"from the queue", key=b"k", headers=[("h", b"\xff")]) == 0
        with Producer(bootstrap=broker.bootstrap) as producer:
            producer.send_and_wait("both", "from kafka", key="k2", headers={"g": "v"})
        client.create_subscription("both", "both")
        client.subscribe_to_subscription("both", got.append)
        until(lambda: len(got) == 2, "not all messages come")
    assert [(one.offset, one.key, one.body, one.headers) for one in got] == [
        (0, b"k", b"from the queue", (("h", b"\xff"),)),
        (1, b"k2", b"from kafka", (("g", b"v"),)),
    ]
    with Consumer("both", bootstrap=broker.bootstrap, group="g", reset="earliest") as consumer:
        message = next(iter(consumer))
        assert (message.offset, message.key, message.value) == (0, b"k", b"from the queue")
        assert list(message.headers) == [("h", b"\xff")]
