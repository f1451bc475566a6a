"""Clients of a broker that is killed all the time: they note what was acknowledged and read back what is there.

Never decides whether that is right; the tests do.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

WAIT_S = 30.0
POLL_S = 0.005
QUEUED_MAX = 200

Where = tuple[str, int, int]
What = tuple[bytes | None, bytes | None]


class Producing:
    """A thread that writes records with values never used twice, until it is told to stop."""

    def __init__(
        self, bootstrap: str, topics: dict[str, int], name: str, seed: int, *, idempotent: bool
    ) -> None:
        self.name = name
        self.acked: dict[Where, What] = {}
        self.failed: list[str] = []
        self._topics = topics
        self._chance = random.Random(seed)
        self._stopping = threading.Event()
        self._queued = 0
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "client.id": name,
                "acks": "all",
                "enable.idempotence": idempotent,
                "linger.ms": 1,
                "batch.num.messages": 20,
                "message.timeout.ms": 120_000,
                "reconnect.backoff.ms": 10,
                "reconnect.backoff.max.ms": 50,
                "retry.backoff.ms": 10,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def _run(self) -> None:
        number = 0
        while not self._stopping.is_set():
            number += 1
            topic = self._chance.choice(sorted(self._topics))
            body = self._chance.randbytes(self._chance.choice((1, 50, 300, 2_000)))
            self._queued += 1
            self._producer.produce(
                topic,
                value=b"%s-%d:%s" % (self.name.encode(), number, body),
                key=b"key-%d" % self._chance.randrange(20),
                partition=self._chance.randrange(self._topics[topic]),
                on_delivery=self._delivered,
            )
            self._producer.poll(POLL_S if self._queued > QUEUED_MAX else 0)
        assert self._producer.flush(WAIT_S) == 0, f"{self.name}: records are still queued"

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        self._queued -= 1
        if error is not None:
            self.failed.append(str(error))
            return
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None and partition is not None and offset is not None
        self.acked[topic, partition, offset] = (message.key(), message.value())

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Let everything that is queued be acknowledged."""
        self._stopping.set()
        self._thread.join(WAIT_S + 5)
        assert not self._thread.is_alive()


@contextmanager
def producing(*producers: Producing) -> Iterator[None]:
    for one in producers:
        one.start()
    try:
        yield
    finally:
        for one in producers:
            one.stop()


def create_topic(bootstrap: str, name: str, partitions: int = 1, **config: str) -> None:
    """Config names with underscores for dots."""
    topic = NewTopic(
        name, partitions, 1, config={key.replace("_", "."): value for key, value in config.items()}
    )
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([topic])[name].result(WAIT_S)


def read_all(bootstrap: str, topic: str, partition: int) -> tuple[int, int, dict[int, What]]:
    """Start, end, and everything in between, by offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": "unused",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "enable.partition.eof": True,
            "check.crcs": True,
        }
    )
    found: dict[int, What] = {}
    try:
        start, end = consumer.get_watermark_offsets(TopicPartition(topic, partition), WAIT_S)
        consumer.assign([TopicPartition(topic, partition, start)])
        while True:
            message = consumer.poll(WAIT_S)
            assert message is not None, (
                f"{topic}-{partition}: nothing more after {len(found)} of {start} to {end}"
            )
            error = message.error()
            if error is not None:
                assert error.code() == KafkaError._PARTITION_EOF, error
                return start, end, found
            offset = message.offset()
            assert offset is not None and offset not in found
            found[offset] = (message.key(), message.value())
    finally:
        consumer.close()
