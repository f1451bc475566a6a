"""What tests of pipelines share: a project on a running broker, runs to the end of what is there, reading back."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from penstock.spark.lake.tables import open_table
from penstock.spark.pipelines.definition import Project
from penstock.spark.pipelines.loader import read_project
from penstock.spark.pipelines.progress import Progress
from penstock.spark.pipelines.runner import started, watch
from penstock.testing import Broker, Cluster
from penstock.testing.child_server import SOURCE_DIR
from spark.places import HASTE, PROJECT

Record = dict[str, Any]
SCHEMA = "id bigint, customer string, amount double"


def order(number: int, **more: Any) -> dict[str, Any]:
    """One order with the columns of SCHEMA."""
    return {"id": number, "customer": f"c{number % 3}", "amount": number + 0.5, **more}


def shell(broker: Broker) -> dict[str, str]:
    """The environment of a shell in which `penstock` is this tree's, and talks to this broker; Java is in haste."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ours = {"PATH": path, "PYTHONPATH": str(SOURCE_DIR), "JDK_JAVA_OPTIONS": HASTE}
    return {**os.environ, **ours, "PENSTOCK_BOOTSTRAP": broker.bootstrap}


class Shop:
    """A broker or a cluster, one directory, and pipelines between them."""

    def __init__(self, broker: Broker | Cluster, home: Path, prefix: str) -> None:
        self.bootstrap = broker.bootstrap
        self.home = home
        self._prefix = prefix
        self._admin = AdminClient({"bootstrap.servers": self.bootstrap})

    def topic(self, name: str, partitions: int = 2) -> str:
        """A topic of this test alone."""
        full = f"{self._prefix}-{name}"
        for future in self._admin.create_topics([NewTopic(full, partitions, 1)]).values():
            future.result(30)
        return full

    def put(self, topic: str, values: Sequence[Any], **record: Any) -> None:
        """Records with JSON values, or bytes as they are; None is a tombstone."""
        producer = Producer({"bootstrap.servers": self.bootstrap})
        for value in values:
            raw = value if value is None or isinstance(value, bytes) else json.dumps(value).encode()
            producer.produce(topic, raw, **record)
        assert producer.flush(30) == 0

    def read(self, topic: str) -> list[Record]:
        """Every committed record of a topic, by partition and offset."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap,
                "group.id": "reading",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        left = set(consumer.list_topics(topic, 30).topics[topic].partitions)
        consumer.assign([TopicPartition(topic, partition, 0) for partition in left])
        found = []
        while left:
            message = consumer.poll(1)
            if message is not None and message.error() is None:
                found.append(_record(message))
            elif message is not None and message.error().code() == KafkaError._PARTITION_EOF:
                left.discard(message.partition())
        consumer.close()
        return sorted(found, key=lambda record: (record["partition"], record["offset"]))

    def project(self, pipelines: Mapping[str, Any], **shared: Any) -> Project:
        return read_project(
            {"bootstrap": self.bootstrap, **PROJECT, **shared, "pipelines": pipelines}, self.home
        )

    def run(self, spark: Any, project: Project, *names: str) -> dict[str, Progress]:
        """Work off what is there."""
        chosen = [one for one in project.pipelines if not names or one.name in names]
        with started(spark, project, chosen, is_once=True) as running:
            watch(running, lambda looks: None, lambda: False)
        return {one.pipeline.name: one.last for one in running}

    def rows(self, table: str, format_name: str = "delta", *columns: str) -> list[Record]:
        """Rows of a table with places, in the order of these."""
        opened = open_table(self.home / table, format_name)
        if not opened.exists():
            return []
        found = opened.between(opened.spans(), columns or opened.schema().names).to_pylist()
        return sorted(found, key=lambda row: (row.get("_partition", 0), row.get("_offset", 0)))


def _record(message: Any) -> Record:
    value = message.value()
    return {
        "key": message.key(),
        "value": value,
        "headers": dict(message.headers() or []),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": message.timestamp()[1],
    }


def values(records: Sequence[Record]) -> list[Any]:
    """Values that are JSON."""
    return [json.loads(record["value"]) for record in records]
