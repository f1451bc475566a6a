"""`penstock txn` against a running broker: what it lists, what it aborts, what it refuses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat.transactors import read_to_end
from penstock.testing import Broker, running_broker

SOURCE_DIR = Path(__file__).resolve().parents[2] / "src"
WAIT_S = 20.0
TOPIC = "orders"


@pytest.fixture
def broker() -> Iterator[Broker]:
    with running_broker() as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic(TOPIC, 1)])[TOPIC].result(WAIT_S)
        yield running


def txn(broker: Broker, *arguments: str, code: int = 0) -> str:
    ran = subprocess.run(
        [sys.executable, "-m", "penstock", "txn", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE_DIR), "PENSTOCK_BOOTSTRAP": broker.bootstrap},
        timeout=60,
    )
    output = ran.stdout.decode() + ran.stderr.decode()
    assert ran.returncode == code, output
    assert "Traceback" not in output
    return output


@pytest.fixture
def producer(broker: Broker) -> Producer:
    """One with a transaction open."""
    made = Producer(
        {"bootstrap.servers": broker.bootstrap, "transactional.id": "pay", "error_cb": lambda _: None}
    )
    made.init_transactions(WAIT_S)
    made.begin_transaction()
    made.produce(TOPIC, b"half", partition=0)
    made.flush(WAIT_S)
    return made


def test_nothing_to_list(broker: Broker) -> None:
    assert txn(broker, "list") == "No transactional ids.\n"
    assert json.loads(txn(broker, "list", "-o", "json")) == []
    assert "There is no transactional id pay" in txn(broker, "describe", "pay", code=4)


def test_list_and_describe(broker: Broker, producer: Producer) -> None:
    (listed,) = json.loads(txn(broker, "list", "-o", "json"))
    assert (listed["transactional_id"], listed["state"]) == ("pay", "Ongoing")
    assert "pay" in txn(broker, "list", "--state", "Ongoing", "--match", "p.*")
    assert json.loads(txn(broker, "list", "--longer-than", "1h", "-o", "json")) == []
    assert "There is no state 'Asleep'" in txn(broker, "list", "--state", "Asleep", code=5)
    (found,) = json.loads(txn(broker, "describe", "pay", "-o", "json"))
    assert found["partitions"] == {TOPIC: [0]} and found["timeout_ms"] == 60_000
    assert f"{TOPIC}: 0" in txn(broker, "describe", "pay")


def test_abort_fences_the_producer(broker: Broker, producer: Producer) -> None:
    assert txn(broker, "abort", "pay") == "pay: aborted\n"
    assert read_to_end(broker.bootstrap, TOPIC) == []
    with pytest.raises(KafkaException) as caught:
        producer.commit_transaction(WAIT_S)
    assert caught.value.args[0].name() == "_FENCED"
    assert "has no open transaction" in txn(broker, "abort", "pay", code=5)


def test_a_transaction_with_an_owner_does_not_hang(broker: Broker, producer: Producer) -> None:
    refused = txn(broker, "abort", "--topic", TOPIC, "--partition", "0", code=5)
    assert "it belongs to pay" in refused
    producer.commit_transaction(WAIT_S)
    assert read_to_end(broker.bootstrap, TOPIC) == ["half"]
    assert "No such transaction is open" in txn(broker, "abort", "--topic", TOPIC, "--partition", "0", code=4)


def test_a_hanging_transaction_is_ended(broker: Broker, producer: Producer) -> None:
    """One whose coordinator knows nothing of it any more, because it lost its data."""
    lose_coordinator(broker)
    plain = Producer({"bootstrap.servers": broker.bootstrap})
    plain.produce(TOPIC, b"plain", partition=0)
    plain.flush(WAIT_S)
    assert json.loads(txn(broker, "list", "-o", "json")) == []
    assert read_to_end(broker.bootstrap, TOPIC) == []
    place = ("--topic", TOPIC, "--partition", "0", "--start-offset")
    assert "No such transaction is open" in txn(broker, "abort", *place, "1", code=4)
    (ended,) = json.loads(txn(broker, "abort", *place, "0", "-o", "json"))
    assert ended["start_offset"] == 0
    assert read_to_end(broker.bootstrap, TOPIC) == ["plain"]


def lose_coordinator(broker: Broker) -> None:
    """Take away what is kept of the transactional id, and that it was ever there."""
    broker.stop()
    logs = [path for path in (broker.data_dir / "topics").rglob("*.log") if b"pay" in path.read_bytes()]
    assert len(logs) == 1
    shutil.rmtree(logs[0].parent)
    (broker.data_dir / "recovery-points.json").unlink()
    broker.start()


def test_usage(broker: Broker) -> None:
    assert "Set either" in txn(broker, "abort", code=2)
    assert "Set either" in txn(broker, "abort", "pay", "--topic", TOPIC, "--partition", "0", code=2)
    assert "There is no partition 7" in txn(broker, "abort", "--topic", TOPIC, "--partition", "7", code=4)


def test_nobody_answers(broker: Broker) -> None:
    assert "No broker answers" in txn(broker, "list", "--bootstrap", "127.0.0.1:1", code=3)
