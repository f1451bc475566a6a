"""Transactions whose coordinator, partitions and group are on different brokers, with a broker killed in between."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

from penstock import Admin
from penstock.testing import Cluster, running_cluster

PARTITIONS = 6
ROWS = 240
CHUNK = 40
CALL_S_MAX = 60.0
READ_S_MAX = 60.0


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with running_cluster(
        3, tmp_path, text_port="off", json_port="off", queue_port="off", http_port="off"
    ) as found:
        with Admin(bootstrap=found.bootstrap) as admin:
            admin.create_topic("rows", PARTITIONS)
            admin.create_topic("copies", PARTITIONS)
        producer = Producer({"bootstrap.servers": found.bootstrap})
        for number in range(ROWS):
            producer.produce("rows", str(number).encode(), key=str(number).encode())
        assert producer.flush(CALL_S_MAX) == 0
        yield found


def reader(cluster: Cluster, group: str, topic: str) -> Any:
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([topic])
    return consumer


def make_producer(cluster: Cluster, transactional_id: str) -> Any:
    producer = Producer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "transactional.id": transactional_id,
            "transaction.timeout.ms": 30_000,
        }
    )
    producer.init_transactions(CALL_S_MAX)
    return producer


def copy_chunk(consumer: Any, producer: Any, rows: list[Any]) -> None:
    producer.begin_transaction()
    for row in rows:
        producer.produce("copies", row.value(), key=row.key())
    offsets = consumer.position(consumer.assignment())
    producer.send_offsets_to_transaction(offsets, consumer.consumer_group_metadata(), CALL_S_MAX)
    producer.commit_transaction(CALL_S_MAX)


def copied(cluster: Cluster, count: int) -> Counter[bytes]:
    """The committed copies, once that many can be read."""
    consumer, found = reader(cluster, "check", "copies"), Counter[bytes]()
    while found.total() < count:
        more = consumer.consume(count, READ_S_MAX)
        assert more, f"{found.total()} of {count} copies are readable"
        found.update(one.value() for one in more)
    consumer.close()
    return found


@pytest.mark.parametrize("number", range(3))
def test_rows_and_offsets_are_committed_together_wherever_they_are(cluster: Cluster, number: int) -> None:
    """Ids and groups of different names have their coordinators on different brokers."""
    producer, consumer, left = (
        make_producer(cluster, f"copy-{number}"),
        reader(cluster, f"g-{number}", "rows"),
        ROWS,
    )
    while left:
        rows = consumer.consume(CHUNK, READ_S_MAX)
        assert rows
        copy_chunk(consumer, producer, rows)
        left -= len(rows)
    producer.begin_transaction()
    producer.produce("copies", b"aborted")
    producer.abort_transaction(CALL_S_MAX)
    committed = consumer.committed(consumer.assignment(), CALL_S_MAX)
    consumer.close()
    assert sum(one.offset for one in committed) == ROWS
    assert copied(cluster, ROWS) == Counter(str(row).encode() for row in range(ROWS))


@pytest.mark.parametrize("killed", [1, 2, 3])
def test_each_row_is_copied_once_although_a_broker_dies(cluster: Cluster, killed: int) -> None:
    """Whatever it led: the coordinator of the transaction, of the group, or partitions of either topic."""
    attempts, is_killed = 0, False
    while committed_rows(cluster) < ROWS:
        attempts += 1
        assert attempts < 10
        producer, consumer = make_producer(cluster, "copy"), reader(cluster, "g", "rows")
        try:
            while committed_rows(cluster) < ROWS and (rows := consumer.consume(CHUNK, READ_S_MAX)):
                if not is_killed:
                    cluster.broker(killed).kill()
                    cluster.broker(killed).launch()
                    is_killed = True
                copy_chunk(consumer, producer, rows)
        except KafkaException:
            cluster.broker(killed).await_ready()
        consumer.close()
    assert is_killed
    assert copied(cluster, ROWS) == Counter(str(row).encode() for row in range(ROWS))


def committed_rows(cluster: Cluster) -> int:
    """How many rows the group has committed."""
    consumer = reader(cluster, "g", "rows")
    places = [TopicPartition("rows", index) for index in range(PARTITIONS)]
    found = consumer.committed(places, CALL_S_MAX)
    consumer.close()
    return sum(max(0, one.offset) for one in found)
