"""Seed 004, the Kafka analog: what its producer, consumer and topics must be able to do, through the Python clients.

Its coordinator, its gRPC services and its Node.js services have suites of their own, which docs/seeds.md lists.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from conditions import WAIT_S_MAX, until
from penstock import Admin, Avro, Consumer, Producer, Record, pipe
from penstock.client.errors import ClientError
from penstock.testing import Broker, running_broker

PARTITIONS = 10
"""`default_partitions` of the document's config.yaml."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    home = tmp_path_factory.mktemp("seed-004")
    with running_broker(
        home, default_partitions=PARTITIONS, retention_check_ms=100, group_initial_rebalance_ms=0
    ) as one:
        yield one


def write(broker: Broker, topic: str, count: int, partition: int | None = None) -> None:
    with Producer(bootstrap=broker.bootstrap) as producer:
        for number in range(count):
            producer.send(topic, str(number), partition=partition)


# -- 1. producer


def test_partitioning_strategies(broker: Broker) -> None:
    def by_length(topic: str, key: bytes | None, count: int) -> int:
        return len(key or b"") % count

    with Admin(bootstrap=broker.bootstrap) as admin:
        admin.create_topic("placed")
        assert len(admin.describe_topic("placed").partitions) == PARTITIONS
    with Producer(bootstrap=broker.bootstrap, partitioning="round_robin") as producer:
        placed = [producer.send("placed", b"x") for _ in range(20)]
        counts = Counter(one.result(WAIT_S_MAX).partition for one in placed)
    assert counts == dict.fromkeys(range(PARTITIONS), 2)
    with Producer(bootstrap=broker.bootstrap, partitioning="key") as producer:
        same = {producer.send_and_wait("placed", b"x", key=b"user-123").partition for _ in range(5)}
    assert len(same) == 1
    with Producer(bootstrap=broker.bootstrap, partitioning=by_length) as producer:
        assert producer.send_and_wait("placed", b"x", key=b"1234567").partition == 7


@pytest.mark.parametrize("acks", ["none", "leader", "all"])
def test_acknowledgment_modes(broker: Broker, acks: str) -> None:
    topic = f"acks-{acks}"
    with Producer(bootstrap=broker.bootstrap, acks=acks, delivery="at_most_once") as producer:
        placed = producer.send_and_wait(topic, b"x", partition=0)
    assert (placed.offset is None) == (acks == "none")
    with Consumer(topic, bootstrap=broker.bootstrap, partitions=[0], idle_s_max=WAIT_S_MAX) as consumer:
        message = consumer.poll(WAIT_S_MAX)
    assert message is not None and message.value == b"x"


def test_batches_of_the_documents_sizes(broker: Broker) -> None:
    """`batch_size: 16384`, `linger_ms: 100`: many records travel in few batches."""
    options = {"batch_bytes_max": 16_384, "linger_ms": 100}
    with Producer(bootstrap=broker.bootstrap, **options) as producer:
        for number in range(500):
            producer.send("batched", f"{number:020}", partition=0)
    with Consumer("batched", bootstrap=broker.bootstrap, partitions=[0], until_end=True) as consumer:
        assert [int(message.value) for message in consumer] == list(range(500))


def test_json_binary_and_avro(broker: Broker) -> None:
    schema = {"type": "record", "name": "Login", "fields": [{"name": "user", "type": "string"}]}
    avro = Avro(schema)
    for serializer, value in (("json", {"user": "u"}), ("binary", b"\x00\xff"), (avro, {"user": "u"})):
        topic = f"written-{serializer if isinstance(serializer, str) else 'avro'}"
        with Producer(bootstrap=broker.bootstrap, value_serializer=serializer) as producer:
            producer.send_and_wait(topic, value)
        with Consumer(
            topic, bootstrap=broker.bootstrap, value_serializer=serializer, until_end=True
        ) as consumer:
            assert [message.value for message in consumer] == [value]


def test_retries_are_configurable_and_failures_are_told(tmp_path: Path) -> None:
    """Sends are retried while the broker is away, and fail once their time is over."""
    with running_broker(tmp_path) as broker:
        with Producer(bootstrap=broker.bootstrap, retries=1_000, retry_backoff_ms=10) as producer:
            producer.send_and_wait("retried", b"before")
            broker.kill()
            waiting = producer.send("retried", b"after")
            broker.start()
            assert waiting.result(WAIT_S_MAX).offset == 1
        with Producer(bootstrap=broker.bootstrap, delivery_s_max=0.5, retries=1) as impatient:
            broker.kill()
            with pytest.raises(ClientError, match="timed out"):
                impatient.send("retried", b"lost").result(WAIT_S_MAX)


# -- 2. consumer


def test_at_most_once_at_least_once_exactly_once(broker: Broker) -> None:
    """What a reader that stops after its first message finds the next time."""
    write(broker, "strategies", 3, partition=0)
    options = {"bootstrap": broker.bootstrap, "commit": "manual"}
    with Consumer(
        "strategies", group="most", delivery="at_most_once", bootstrap=broker.bootstrap
    ) as consumer:
        first = consumer.poll(WAIT_S_MAX)
        assert first is not None and first.value == b"0"
    with Consumer("strategies", group="most", bootstrap=broker.bootstrap, until_end=True) as consumer:
        assert b"0" not in [message.value for message in consumer]
    with Consumer("strategies", group="least", **options) as consumer:
        first = consumer.poll(WAIT_S_MAX)
        assert first is not None and first.value == b"0"
    with Consumer("strategies", group="least", until_end=True, **options) as consumer:
        assert [message.value for message in consumer] == [b"0", b"1", b"2"]
    once = {"bootstrap": broker.bootstrap, "delivery": "exactly_once"}
    with (
        Consumer("strategies", group="once", until_end=True, **once) as consumer,
        Producer(transactional_id="copier", **once) as producer,
    ):
        assert pipe(consumer, producer, lambda message: [Record("copied", message.value)]) == 3
    with Consumer("copied", bootstrap=broker.bootstrap, until_end=True) as consumer:
        assert sorted(message.value for message in consumer) == [b"0", b"1", b"2"]


def test_offsets_auto_manual_and_reset(broker: Broker) -> None:
    write(broker, "resets", 5, partition=0)
    place = {"bootstrap": broker.bootstrap, "until_end": True}
    with Consumer("resets", group="auto", **place) as consumer:
        assert len(list(consumer)) == 5
    with Consumer("resets", group="auto", **place) as consumer:
        assert list(consumer) == []
    with Consumer("resets", group="manual", commit="manual", **place) as consumer:
        messages = list(consumer)
        consumer.commit(messages[1])
    with Consumer("resets", group="manual", commit="manual", **place) as consumer:
        assert [message.offset for message in consumer] == [2, 3, 4]
    for reset, expected in (("earliest", 5), ("latest", 0), (3, 2)):
        with Consumer("resets", partitions=[0], reset=reset, **place) as consumer:
            assert len(list(consumer)) == expected


ASSIGNORS = {
    "range": {"partition.assignment.strategy": "range"},
    "round robin": {"partition.assignment.strategy": "roundrobin"},
    "sticky": {"partition.assignment.strategy": "cooperative-sticky"},
}


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_members_share_partitions_and_rebalance(broker: Broker, assignor: str) -> None:
    topic, group = f"shared-{assignor.replace(' ', '-')}", assignor
    write(broker, topic, 1)

    def join() -> Consumer:
        extra: dict[str, object] = dict(ASSIGNORS[assignor])
        return Consumer(topic, bootstrap=broker.bootstrap, group=group, librdkafka=extra, session_ms=10_000)

    def settle(members: list[Consumer], sizes: list[int]) -> list[set[int]]:
        deadline = time.monotonic() + WAIT_S_MAX
        while True:
            for member in members:
                member.poll(0.02)
            held = [{index for _, index in member.assignment()} for member in members]
            if sorted(map(len, held)) == sizes and set().union(*held) == set(range(PARTITIONS)):
                return held
            assert time.monotonic() < deadline, held

    with ExitStack() as alive:
        first = alive.enter_context(join())
        (before,) = settle([first], [PARTITIONS])
        with join() as second:
            after, _ = settle([first, second], [5, 5])
            assert after < before
        settle([first], [PARTITIONS])


# -- 4. topics


def test_topics_are_created_configured_and_deleted(broker: Broker) -> None:
    with Admin(bootstrap=broker.bootstrap) as admin:
        admin.create_topic("kept", 3, configs={"retention.ms": "3600000"})
        admin.set_configs("kept", {"retention.bytes": "1000000"})
        admin.add_partitions("kept", 4)
        described = admin.describe_topic("kept", all_configs=True)
        found = {one.name: one.value for one in admin.configs("kept")}
        assert len(described.partitions) == 4
        assert (found["retention.ms"], found["retention.bytes"]) == ("3600000", "1000000")
        admin.delete_topic("kept")
        assert "kept" not in [one.topic for one in admin.topics()]


def test_retention_by_size_deletes_old_segments(broker: Broker) -> None:
    with Admin(bootstrap=broker.bootstrap) as admin:
        admin.create_topic("short", 1, configs={"retention.bytes": "100000", "segment.bytes": "16384"})
        with Producer(bootstrap=broker.bootstrap, linger_ms=0) as producer:
            for _ in range(40):
                producer.send_and_wait("short", b"x" * 10_000)
        until(lambda: admin.describe_topic("short").partitions[0].start_offset > 0, "nothing was deleted")
