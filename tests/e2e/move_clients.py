"""Clients of a cluster whose partitions move: they write and read all the time and count. Assert nothing."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition

from checker.sight import view
from penstock.client.access import Access, read_addresses
from penstock.client.raw.cluster import Cluster
from penstock.wire.kafka import ApiKey, messages

ANSWER_MS = 20_000


def raw_cluster(bootstrap: str) -> Cluster:
    """Requests that no client library has."""
    return Cluster(
        Access(
            addresses=read_addresses(bootstrap),
            client_id="moves",
            connect_ms_max=3_000,
            request_ms_max=ANSWER_MS,
            call_ms_max=ANSWER_MS,
        )
    )


def leaders(cluster: Cluster, topic: str) -> dict[int, int]:
    """Partition → its leader."""
    return {index: one.leader for (name, index), one in view(cluster).partitions.items() if name == topic}


def commit_start(bootstrap: str, group: str, topic: str, partitions: int) -> None:
    """The group has a position in every partition, so that it never needs to be reset."""
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": group, "log_level": 0})
    consumer.commit(offsets=[TopicPartition(topic, one, 0) for one in range(partitions)], asynchronous=False)
    consumer.close()


def reassign(cluster: Cluster, topic: str, targets: dict[int, Sequence[int] | None]) -> list[int]:
    """Start moves, or cancel them with None; returns the error codes."""
    request = messages.AlterPartitionReassignmentsRequest
    partitions = [
        request.ReassignablePartition(partition_index=index, replicas=None if one is None else list(one))
        for index, one in targets.items()
    ]
    answer = cluster.ask(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        request(topics=[request.ReassignableTopic(name=topic, partitions=partitions)]),
    )
    return [answer.error_code, *(one.error_code for found in answer.responses for one in found.partitions)]


def ongoing(cluster: Cluster) -> int:
    """The number of partitions that move."""
    answer = cluster.ask(
        ApiKey.LIST_PARTITION_REASSIGNMENTS, messages.ListPartitionReassignmentsRequest(topics=None)
    )
    return sum(len(one.partitions) for one in answer.topics)


class Writer:
    """Writes ascending numbers to all partitions of a topic until it is stopped."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, **settings: object) -> None:
        self.sent = [0] * partitions
        self.acked: list[set[int]] = [set() for _ in range(partitions)]
        self.failed: list[str] = []
        self._topic = topic
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "message.timeout.ms": 120_000,
                "linger.ms": 2,
                "log_level": 0,
                **settings,
            }
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when everything is acknowledged or has failed."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stop.is_set():
            for partition in range(len(self.sent)):
                number = self.sent[partition]
                self._producer.produce(
                    self._topic,
                    value=b"%d" % number,
                    partition=partition,
                    on_delivery=partial(self._told, number),
                )
                self.sent[partition] += 1
            self._producer.poll(0)
            time.sleep(0.002)  # the rate, not a wait for anything
        self._producer.flush()

    def _told(self, number: int, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self.failed.append(str(error))
        else:
            self.acked[message.partition() or 0].add(number)


class GroupReader:
    """A member of a group that commits, and takes a position that is out of range for an error."""

    def __init__(self, bootstrap: str, topic: str, partitions: int) -> None:
        self.read: list[list[int]] = [[] for _ in range(partitions)]
        self.errors: list[str] = []
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": "readers",
                "auto.offset.reset": "error",
                "enable.auto.commit": True,
                "auto.commit.interval.ms": 200,
                "session.timeout.ms": 30_000,
                "log_level": 0,
            }
        )
        self._topic = topic
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        self._consumer.subscribe([self._topic])
        while not self._stop.is_set():
            message = self._consumer.poll(0.2)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                if not error.retriable() and error.code() != KafkaError._ALL_BROKERS_DOWN:
                    self.errors.append(str(error))
                continue
            self.read[message.partition() or 0].append(int(message.value() or b""))
        self._consumer.close()


@contextmanager
def at_work(*clients: Writer | GroupReader) -> Iterator[None]:
    """These clients run; they are stopped in any case."""
    for one in clients:
        one.start()
    try:
        yield
    finally:
        for one in clients:
            one.stop()
