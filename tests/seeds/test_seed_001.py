"""Seed 001, the message broker with subscriptions: every block of its document against a real broker.

Only the import line and the name of the program differ: `from penstock import BrokerClient`, `penstock …`.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conditions import WAIT_S_MAX, until
from penstock import BrokerClient
from penstock.client.queue import Message
from penstock.testing import Broker, running_broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    with running_broker(tmp_path) as one:
        yield one


def test_publishing_messages(broker: Broker) -> None:
    # Create client
    client = BrokerClient(host="localhost", port=broker.queue_port, client_id="publisher-1")
    client.connect()

    # Create a topic
    client.create_topic("events")

    # Publish messages
    assert client.publish_text("events", "Hello, World!") == 0
    assert client.publish_text("events", "Another message", custom_property="value") == 1

    client.disconnect()


def test_subscribing_to_messages(broker: Broker, capsys: pytest.CaptureFixture[str]) -> None:
    test_publishing_messages(broker)
    seen = threading.Semaphore(0)

    def message_handler(message: Message) -> None:
        print(f"Received: {message.body.decode('utf-8')}")
        seen.release()

    # Create client
    client = BrokerClient(host="localhost", port=broker.queue_port, client_id="subscriber-1")
    client.connect()

    # Create a subscription for the topic
    client.create_subscription("my-consumer-group", "events", start_offset=0)

    # Join the subscription
    client.subscribe_to_subscription("my-consumer-group", handler=message_handler)

    # Keep running to receive messages
    try:
        for _ in range(2):
            assert seen.acquire(timeout=WAIT_S_MAX)
        raise KeyboardInterrupt
    except KeyboardInterrupt:
        client.unsubscribe_from_subscription("my-consumer-group")
        client.disconnect()
    assert capsys.readouterr().out.splitlines() == ["Received: Hello, World!", "Received: Another message"]


def test_multiple_subscribers_take_turns(broker: Broker) -> None:
    counts: Counter[str] = Counter()
    order: list[str] = []

    def handler_of(name: str) -> Callable[[Message], None]:
        def message_handler(message: Message) -> None:
            counts[name] += 1
            order.append(message.text)

        return message_handler

    port = broker.queue_port
    with BrokerClient(port=port, client_id="publisher-1") as publisher:
        publisher.create_topic("events")
        publisher.create_subscription("my-consumer-group", "events", start_offset=0)

        # Subscriber 1
        client1 = BrokerClient(port=port, client_id="subscriber-1")
        client1.connect()
        client1.subscribe_to_subscription("my-consumer-group", handler=handler_of("subscriber-1"))

        # Subscriber 2 (joins same subscription)
        client2 = BrokerClient(port=port, client_id="subscriber-2")
        client2.connect()
        client2.subscribe_to_subscription("my-consumer-group", handler=handler_of("subscriber-2"))

        # Messages will be distributed round-robin between subscriber-1 and subscriber-2
        for number in range(20):
            publisher.publish_text("events", str(number))
        until(lambda: len(order) == 20, "not every message came")
        assert counts == {"subscriber-1": 10, "subscriber-2": 10}
        client1.disconnect()
        client2.disconnect()


def penstock(broker: Broker, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "penstock", *words, "--queue", f"localhost:{broker.queue_port}"]
    return subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S_MAX, check=False)


def listening(broker: Broker, out: Path, *words: str) -> subprocess.Popen[bytes]:
    """A command that runs until it is interrupted."""
    command = [sys.executable, "-m", "penstock", *words, "--queue", f"localhost:{broker.queue_port}"]
    with out.open("wb") as file:
        return subprocess.Popen(
            command,
            stdout=file,
            stderr=subprocess.STDOUT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )


def test_the_command_line(broker: Broker, tmp_path: Path) -> None:
    # Create a topic
    made = penstock(broker, "create-topic", "events", "--partitions", "1")
    assert (made.returncode, made.stdout) == (0, "created topic events\n"), made.stderr

    # Create a subscription
    made = penstock(broker, "create-subscription", "my-group", "events", "--offset", "0")
    assert (made.returncode, made.stdout) == (0, "created subscription my-group to events\n"), made.stderr

    # Publish a message
    made = penstock(broker, "publish", "events", "Hello World")
    assert (made.returncode, made.stdout) == (0, "published to events at offset 0\n"), made.stderr

    # Join a subscription to receive messages
    joined = listening(broker, tmp_path / "join", "join-subscription", "my-group")
    until(lambda: "Hello World" in (tmp_path / "join").read_text(), "the message did not come")

    # Legacy subscribe (creates subscription automatically)
    legacy = listening(broker, tmp_path / "legacy", "subscribe", "events", "--offset", "0")
    until(lambda: "Hello World" in (tmp_path / "legacy").read_text(), "the message did not come")

    for process in (joined, legacy):
        process.send_signal(signal.SIGINT)
        assert process.wait(WAIT_S_MAX) == 0
    assert penstock(broker, "join-subscription", "nobody's").returncode == 4


def test_the_server_is_found_where_the_document_says(tmp_path: Path) -> None:
    """`QB_SERVER_PORT` names the queue door's port."""
    with running_broker() as other:
        port = str(other.queue_port)
    environment = {**os.environ, "QB_SERVER_PORT": port, "QB_SERVER_HOST": "127.0.0.1"}
    ready = tmp_path / "ready.json"
    words = ("--port", "0", "--text-port", "off", "--json-port", "off", "--http-port", "off")
    command = [sys.executable, "-m", "penstock", "start", *words, "--ready-file", str(ready)]
    process = subprocess.Popen(
        [*command, "--data-dir", str(tmp_path / "data")],
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        until(ready.exists, "the broker did not start")
        with BrokerClient(port=int(port)) as client:
            assert client.create_topic("events")
    finally:
        process.terminate()
        process.wait(WAIT_S_MAX)


SETTINGS = """\
server:
  host: 127.0.0.1
  port: 9999
  heartbeat_interval: 30
storage:
  data_dir: ./storage/data
  fsync_on_write: true
client:
  request_timeout: 30
  heartbeat_interval: 30
"""


def test_every_setting_of_the_document_is_understood(tmp_path: Path) -> None:
    """The port is the queue door's; intervals count seconds; settings of clients are named."""
    config = tmp_path / "config.yaml"
    config.write_text(SETTINGS)
    command = [sys.executable, "-m", "penstock", "config", "explain", "-o", "json", "--config", str(config)]
    environment = {**os.environ, "QB_DATA_DIR": "./elsewhere", "QB_LOG_LEVEL": "DEBUG"}
    ran = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_S_MAX, env=environment)
    assert ran.returncode == 0, ran.stderr
    found = {row["name"]: row["value"] for row in json.loads(ran.stdout) if row["source"] != "default"}
    document = {
        "host": "127.0.0.1",
        "queue_port": 9999,
        "subscription_heartbeat_ms": 30_000,
        "durability": "fsync",
        "data_dir": "./elsewhere",
        "log_level": "debug",
    }
    assert {name: found.get(name) for name in document} == document
    assert "client.request_timeout is a setting of clients" in ran.stderr
    assert "client.heartbeat_interval is a setting of clients" in ran.stderr
    assert BrokerClient(request_timeout_s=30)
