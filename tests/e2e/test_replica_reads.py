"""Consumers that name their rack read from the replica there, also through the deaths of that replica and of the
leader, and never lose their position."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition
from prometheus_client.parser import text_string_to_metric_families

from conditions import until
from penstock import Admin, Producer
from penstock.testing import Broker, Cluster
from penstock.testing.broker import Flag

TOPIC = "orders"
POLL_S = 0.1


class RackedCluster(Cluster):
    """Every broker has a rack of its own."""

    def _broker(self, node_id: int) -> Broker:
        flags: dict[str, Flag] = {**self._flags, "node_id": node_id, "metadata": self.coordinator.url}
        return Broker(self.home / f"broker-{node_id}", {**flags, "rack": rack_of(node_id)})


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[RackedCluster]:
    off = dict.fromkeys(("text_port", "json_port", "queue_port"), "off")
    found = RackedCluster(tmp_path, 3, {"session_ms": 3_000, **off})
    try:
        found.start()
        with Admin(bootstrap=found.bootstrap) as admin:
            admin.create_topic(TOPIC, 1, {"min.insync.replicas": "2"}, replicas=3)
        yield found
    finally:
        found.close()


def rack_of(node_id: int) -> str:
    return f"rack-{node_id}"


def leader_of(cluster: Cluster) -> int:
    with Admin(bootstrap=cluster.bootstrap) as admin:
        return admin.describe_topic(TOPIC).partitions[0].leader


def sent_bytes(broker: Broker) -> float:
    """Bytes that a broker has sent to readers of the topic."""
    with urlopen(f"http://{broker.host}:{broker.http_port}/metrics") as response:
        text = response.read().decode()
    return sum(
        one.value
        for family in text_string_to_metric_families(text)
        for one in family.samples
        if one.name == "penstock_topic_bytes_out_total" and one.labels["topic"] == TOPIC
    )


class Reader:
    """A consumer of librdkafka in one rack, which fails if it would have to reset its position."""

    def __init__(self, bootstrap: str, rack: str) -> None:
        config = {
            "bootstrap.servers": bootstrap,
            "client.rack": rack,
            "group.id": "readers",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 50,
            "log_level": 3,
        }
        self._consumer = Consumer(config)
        self._consumer.assign([TopicPartition(TOPIC, 0, 0)])
        self.values: list[bytes] = []

    def read(self, is_done: Callable[[], bool]) -> None:
        def poll() -> bool:
            message = self._consumer.poll(POLL_S)
            if message is not None and (error := message.error()) is not None:
                assert error.code() != KafkaError._AUTO_OFFSET_RESET, error
            elif message is not None:
                self.values.append(message.value())
            return is_done()

        until(poll, f"{len(self.values)} records were read")

    def close(self) -> None:
        self._consumer.close()


def write(cluster: Cluster, first: int, count: int) -> list[bytes]:
    values = [b"%06d" % number for number in range(first, first + count)]
    with Producer(bootstrap=cluster.bootstrap) as producer:
        for value in values:
            producer.send(TOPIC, value)
        producer.flush()
    return values


def test_records_come_from_the_replica_in_the_rack(cluster: RackedCluster) -> None:
    leader_id = leader_of(cluster)
    near_id = next(one for one in (1, 2, 3) if one != leader_id)
    written = write(cluster, 0, 500)
    reader = Reader(cluster.bootstrap, rack_of(near_id))
    try:
        reader.read(lambda: len(reader.values) >= 500)
        assert reader.values == written
        assert sent_bytes(cluster.broker(near_id)) > 0
        assert sent_bytes(cluster.broker(leader_id)) == 0, (
            "the leader refers to the replica, and sends nothing"
        )
        written += write(cluster, 500, 100)
        reader.read(lambda: len(reader.values) >= 600)
        assert reader.values == written and sent_bytes(cluster.broker(leader_id)) == 0
    finally:
        reader.close()


@pytest.mark.parametrize("victim", ["replica", "leader"])
def test_a_reader_goes_on_when_a_broker_dies(cluster: RackedCluster, victim: str) -> None:
    leader_id = leader_of(cluster)
    near_id = next(one for one in (1, 2, 3) if one != leader_id)
    written = write(cluster, 0, 100)
    reader = Reader(cluster.bootstrap, rack_of(near_id))
    try:
        reader.read(lambda: len(reader.values) >= 100)
        cluster.broker(near_id if victim == "replica" else leader_id).kill()
        written += write(cluster, 100, 100)
        reader.read(lambda: len(reader.values) >= 200)
        assert reader.values == written
    finally:
        reader.close()
