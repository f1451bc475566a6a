"""A fresh topic and a fresh group on a broker, and somebody who writes. Never reads: that is for the members."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from compat.members import Place, Read, Troop
from compat.vocabulary import WAIT_S
from penstock.testing import Broker

PARTITIONS = 4
FLUSH_S_MAX = 60.0
PACE_S = 0.01
"""Between two rounds of a writer that writes on and on: slower than the slowest member."""


class Stage:
    """A broker, a fresh topic, a fresh group, and a producer whose every record is acknowledged and noted."""

    def __init__(self, broker: Broker, partitions: int = PARTITIONS) -> None:
        self.broker = broker
        self.topic = f"compat-{uuid.uuid4().hex[:12]}"
        self.group = f"group-{uuid.uuid4().hex[:12]}"
        self.places: list[Place] = [(self.topic, partition) for partition in range(partitions)]
        self.written: list[Read] = []
        """What was acknowledged, as a reader must find it."""
        self.admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        self.admin.create_topics([NewTopic(self.topic, partitions, 1)])[self.topic].result(WAIT_S)
        self._producer = Producer(
            {
                "bootstrap.servers": broker.bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                "reconnect.backoff.max.ms": 200,
            }
        )

    @property
    def ends(self) -> dict[Place, int]:
        """Where each partition ends, as far as is acknowledged."""
        ends = dict.fromkeys(self.places, 0)
        for one in list(self.written):
            ends[one.topic, one.partition] = max(one.offset + 1, ends[one.topic, one.partition])
        return ends

    def write(self, label: str, each: int = 25) -> list[str]:
        """Write records to every partition, acknowledged; their values."""
        values = [
            (partition, f"{label}-{partition}-{number}")
            for _, partition in self.places
            for number in range(each)
        ]
        for partition, value in values:
            self._producer.produce(self.topic, value, partition=partition, on_delivery=self._note)
        assert self._producer.flush(FLUSH_S_MAX) == 0
        return [value for _, value in values]

    def _note(self, error: Any, message: Any) -> None:
        assert error is None, error
        self.written.append(
            Read(message.topic(), message.partition(), message.offset(), message.value().decode())
        )

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Write on and on, whatever happens to the broker meanwhile."""
        enough = threading.Event()
        failures: list[BaseException] = []

        def write() -> None:
            try:
                rounds = 0
                while not enough.wait(PACE_S):
                    self.write(f"round-{rounds}", each=1)
                    rounds += 1
            except BaseException as failure:  # noqa: BLE001 - raised again where the test sees it
                failures.append(failure)

        writer = threading.Thread(target=write)
        writer.start()
        try:
            yield
        finally:
            enough.set()
            writer.join()
        assert not failures, failures

    def troop(self, **options: Any) -> Troop:
        return Troop(self.broker.bootstrap, self.group, self.places, **options)


def live_through_kills(stage: Stage, troop: Troop, client: str) -> None:
    """Members work; one of them and then the broker are killed in the middle. Returns when what was written until the
    survivors were at work again is committed. The writer never stops in between."""
    first, second = troop.add(client), troop.add(client)
    troop.until_owned_by(first, second)
    with stage.writing():
        troop.until_read_beyond(stage.ends, first, second)
        second.kill()
        third = troop.add(client)
        troop.until_owned_by(first, third)
        troop.until_read_beyond(stage.ends, first, third)
        stage.broker.kill()
        stage.broker.start()
        troop.until_read_beyond(stage.ends, first, third)
        troop.until_committed(stage.ends)
