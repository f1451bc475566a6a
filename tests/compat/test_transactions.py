"""Transactions with third-party clients: commit, abort, fencing, timeouts, offsets, and a broker that dies."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from compat.roster import JAVA
from compat.transactors import CLIENTS, TransactionRefused, Transactor, read_to_end
from compat.vocabulary import WAIT_S
from penstock.apps.cli.txn_admin import TransactionAdmin
from penstock.testing import Broker, running_broker

V1, V2 = 1, 2
SPOKEN = [pytest.param(client, V1, id=f"{client}-v1") for client in CLIENTS] + [
    pytest.param(JAVA, V2, id=f"{JAVA}-v2")
]
"""Only Java speaks the second version of the protocol; it does as soon as the broker says that it is in force."""

FENCED = {
    "_FENCED", "ProducerFenced", "ProducerFencedError", "ProducerFencedException", "InvalidProducerEpochException",
    "INVALID_PRODUCER_EPOCH", "PRODUCER_FENCED", "InvalidProducerEpoch", "InvalidProducerEpochError",
}  # fmt: skip
"""What the clients call it when another producer has taken over, or their transaction took too long."""

Start = Callable[..., Transactor]


@pytest.fixture
def version() -> int:
    return V2


@pytest.fixture
def broker(tmp_path: Path, version: int) -> Iterator[Broker]:
    with running_broker(tmp_path, transaction_version=version, transaction_check_ms=50) as running:
        yield running


@pytest.fixture
def start(broker: Broker, runnable: Callable[[str], str]) -> Iterator[Start]:
    """Starts producers that are ended with the test, whatever happens."""
    started: list[Transactor] = []

    def begin(client: str, transactional_id: str, timeout_ms: int = 60_000) -> Transactor:
        started.append(Transactor(runnable(client), broker.bootstrap, transactional_id, timeout_ms))
        return started[-1]

    yield begin
    for one in started:
        one.kill()


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"txn-{uuid.uuid4().hex[:8]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, 2)])[name].result(WAIT_S)
    return name


def run_one(producer: Transactor, topic: str, *values: str, commit: bool = True) -> None:
    producer.ask("begin")
    for partition in (0, 1):
        producer.send(topic, *values, partition=partition)
    producer.ask("commit" if commit else "abort")


def committed_offset(broker: Broker, group: str, topic: str) -> int:
    """What counts now; a reader of committed records would wait for the end of the transaction instead."""
    settings = {"group.id": group, "isolation.level": "read_uncommitted"}
    reader = Consumer({"bootstrap.servers": broker.bootstrap, **settings})
    try:
        (found,) = reader.committed([TopicPartition(topic, 0)], WAIT_S)
        return int(found.offset)
    finally:
        reader.close()


@pytest.mark.parametrize(("client", "version"), SPOKEN)
def test_committed_is_seen_aborted_is_not(broker: Broker, start: Start, topic: str, client: str) -> None:
    producer = start(client, "pay")
    producer.ask("init")
    run_one(producer, topic, "a", "b")
    run_one(producer, topic, "no", "no", "no", commit=False)
    run_one(producer, topic, "c")
    for partition in (0, 1):
        assert read_to_end(broker.bootstrap, topic, partition) == ["a", "b", "c"]
        everything = read_to_end(broker.bootstrap, topic, partition, committed=False)
        assert everything == ["a", "b", "no", "no", "no", "c"]


@pytest.mark.parametrize(("client", "version"), SPOKEN)
def test_markers_take_one_offset_each(broker: Broker, start: Start, topic: str, client: str) -> None:
    producer = start(client, "pay")
    producer.ask("init")
    producer.ask("begin")
    assert producer.send(topic, "a", "b", "c") == [0, 1, 2]
    producer.ask("commit")
    producer.ask("begin")
    assert producer.send(topic, "d") == [4]
    producer.ask("abort")
    producer.ask("begin")
    assert producer.send(topic, "e") == [6]
    producer.ask("commit")


@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize(("client", "version"), SPOKEN)
def test_a_topic_that_is_created_again_inside_a_transaction_gets_no_marker(
    broker: Broker, start: Start, topic: str, client: str, commit: bool
) -> None:
    """Apache Kafka 4.3 writes it, and whoever speaks V1 is then refused with OUT_OF_ORDER_SEQUENCE_NUMBER for good."""
    producer = start(client, "pay")
    producer.ask("init")
    producer.ask("begin")
    producer.send(topic, "gone", "too")
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.delete_topics([topic])[topic].result(WAIT_S)
    admin.create_topics([NewTopic(topic, 2)])[topic].result(WAIT_S)
    producer.ask("commit" if commit else "abort")
    for value in ("a", "b"):
        producer.ask("begin")
        producer.send(topic, value)
        producer.ask("commit")
    assert read_to_end(broker.bootstrap, topic) == ["a", "b"]


@pytest.mark.parametrize(("client", "version"), SPOKEN)
def test_an_open_transaction_holds_readers_back(
    broker: Broker, start: Start, topic: str, client: str
) -> None:
    producer = start(client, "pay")
    producer.ask("init")
    run_one(producer, topic, "a")
    producer.ask("begin")
    producer.send(topic, "b")
    assert read_to_end(broker.bootstrap, topic) == ["a"]
    assert read_to_end(broker.bootstrap, topic, committed=False) == ["a", "b"]
    producer.ask("commit")
    assert read_to_end(broker.bootstrap, topic) == ["a", "b"]


@pytest.mark.parametrize(("client", "version"), SPOKEN)
def test_a_zombie_is_fenced_and_what_it_wrote_is_aborted(
    broker: Broker, start: Start, topic: str, client: str
) -> None:
    zombie = start(client, "pay")
    zombie.ask("init")
    zombie.ask("begin")
    zombie.send(topic, "zombie")
    successor = start(client, "pay")
    successor.ask("init")
    run_one(successor, topic, "alive")
    with pytest.raises(TransactionRefused) as caught:
        zombie.ask("commit")
    assert caught.value.word in FENCED, str(caught.value)
    run_one(successor, topic, "still alive")
    assert read_to_end(broker.bootstrap, topic) == ["alive", "still alive"]


@pytest.mark.parametrize(("client", "version"), SPOKEN)
def test_a_killed_producer_leaves_nothing_behind(
    broker: Broker, start: Start, topic: str, client: str
) -> None:
    first = start(client, "pay")
    first.ask("init")
    run_one(first, topic, "a")
    first.ask("begin")
    first.send(topic, "half")
    first.kill()
    second = start(client, "pay")
    second.ask("init")
    run_one(second, topic, "b")
    assert read_to_end(broker.bootstrap, topic) == ["a", "b"]


@pytest.mark.parametrize(("client", "version"), SPOKEN)
def test_what_takes_too_long_is_aborted(broker: Broker, start: Start, topic: str, client: str) -> None:
    producer = start(client, "pay", timeout_ms=1_000)
    producer.ask("init")
    producer.ask("begin")
    producer.send(topic, "slow")
    other = start(client, "other")
    other.ask("init")
    run_one(other, topic, "quick")
    deadline = time.monotonic() + WAIT_S
    while read_to_end(broker.bootstrap, topic) != ["quick"]:
        assert time.monotonic() < deadline, "the transaction was not aborted"
    with pytest.raises(TransactionRefused):
        producer.ask("commit")
    assert read_to_end(broker.bootstrap, topic) == ["quick"]


@pytest.mark.parametrize(("client", "version"), SPOKEN)
def test_offsets_count_only_with_their_transaction(
    broker: Broker, start: Start, topic: str, client: str
) -> None:
    producer = start(client, "pay")
    producer.ask("init")
    place = {"group": "readers", "topic": topic, "partition": 0}
    producer.ask("begin")
    producer.send(topic, "a")
    producer.ask("offsets", offset=5, **place)
    assert committed_offset(broker, "readers", topic) < 0
    producer.ask("commit")
    assert committed_offset(broker, "readers", topic) == 5
    producer.ask("begin")
    producer.ask("offsets", offset=9, **place)
    producer.ask("abort")
    assert committed_offset(broker, "readers", topic) == 5
    producer.ask("begin")
    producer.ask("offsets", offset=7, **place)
    producer.ask("commit")
    assert committed_offset(broker, "readers", topic) == 7


@pytest.mark.parametrize(("client", "version"), SPOKEN)
def test_a_broker_that_dies_in_between(broker: Broker, start: Start, topic: str, client: str) -> None:
    producer = start(client, "pay")
    producer.ask("init")
    run_one(producer, topic, "a")
    producer.ask("begin")
    producer.send(topic, "b")
    producer.ask("offsets", offset=3, group="readers", topic=topic, partition=0)
    broker.kill()
    broker.start()
    assert read_to_end(broker.bootstrap, topic) == ["a"]
    producer.ask("commit")
    run_one(producer, topic, "c")
    assert read_to_end(broker.bootstrap, topic) == ["a", "b", "c"]
    assert committed_offset(broker, "readers", topic) == 3


def test_the_clients_together(broker: Broker, start: Start, topic: str) -> None:
    """Each sees the others' transactions as what they are."""
    producers = {client: start(client, client) for client in CLIENTS}
    for producer in producers.values():
        producer.ask("init")
    for client, producer in producers.items():
        producer.ask("begin")
        producer.send(topic, client)
    for at, producer in enumerate(producers.values()):
        producer.ask("abort" if at % 2 else "commit")
    assert read_to_end(broker.bootstrap, topic) == list(CLIENTS[::2])


@pytest.mark.parametrize(("version", "epochs"), [(V1, [0, 0, 0]), (V2, [1, 2, 3])], ids=["v1", "v2"])
def test_java_speaks_the_protocol_that_is_in_force(
    broker: Broker, start: Start, topic: str, epochs: list[int]
) -> None:
    """In V2 each transaction ends with a new epoch, in V1 none does."""
    producer = start(JAVA, "pay")
    producer.ask("init")
    seen = []
    for _ in epochs:
        run_one(producer, topic, "a")
        seen.append(TransactionAdmin(broker.bootstrap).describe("pay").producer_epoch)
    assert seen == epochs
