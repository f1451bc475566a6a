"""A librdkafka producer that sends at a fixed rate in the background, while the caller does something to the brokers.

Latencies count from when a message was due, so a pause of the brokers shows up in every message that was due in it.
"""

from __future__ import annotations

import os
import threading
import time
from array import array
from collections.abc import Iterator
from contextlib import contextmanager
from types import MappingProxyType
from typing import TYPE_CHECKING

from penstock.apps.bench.harness.samples import percentile
from penstock.apps.bench.load.plan import LoadFailed
from penstock.apps.bench.load.producer import DUE, NEVER_DUE
from penstock.apps.bench.load.send_schedule import NS_PER_S, SendSchedule

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

SETTLE_S_MAX = 120.0
POLL_S = 0.002
PRODUCER = MappingProxyType({"acks": "all", "enable.idempotence": True, "linger.ms": 0, "log_level": 0})
"""Otherwise librdkafka's defaults: applications do not tune retries before the first failover."""


class SteadyLoad:
    """One producer and what became of its messages."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, rate: float, size: int) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._rate = rate
        self._filler = os.urandom(size - DUE.size)
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="steady-load", daemon=True)
        self._due_ns = array("q")
        self._acked_ns = array("q")
        self.errors: list[str] = []
        """What messages failed with; empty if all were acknowledged."""

    @property
    def acknowledged(self) -> int:
        return len(self._acked_ns)

    def start(self) -> None:
        """Connect to every leader, then start to send. Raises LoadFailed."""
        from confluent_kafka import Producer

        self._producer = Producer({"bootstrap.servers": self._bootstrap, **PRODUCER})
        for partition in range(self._partitions):
            self._send(self._producer, partition, NEVER_DUE)
        self._settle(self._producer)
        if self.errors:
            raise LoadFailed(f"{self._topic}: {self.errors[0]}")
        self._thread.start()

    def stop(self) -> None:
        """Send no more, and wait until every message is acknowledged or has failed. Raises LoadFailed."""
        self._is_over.set()
        self._thread.join()
        self._settle(self._producer)

    def await_ack_ns(self, due_after_ns: int, seconds_max: float) -> int:
        """When a message that was due after this moment was first acknowledged. Raises LoadFailed."""
        deadline = time.monotonic() + seconds_max
        seen = 0
        while time.monotonic() < deadline:
            for at in range(seen, len(self._acked_ns)):
                if self._due_ns[at] > due_after_ns:
                    return self._acked_ns[at]
            seen = len(self._acked_ns)
            time.sleep(POLL_S)
        raise LoadFailed(f"{self._topic}: no acknowledgement within {seconds_max:.0f} s {self.errors[:1]}")

    def latencies_ms(self, from_ns: int, until_ns: int) -> list[float]:
        """Sorted latencies of the acknowledged messages that were due in this time."""
        pairs = zip(self._due_ns, self._acked_ns, strict=True)
        return sorted((acked - due) / 1e6 for due, acked in pairs if from_ns <= due < until_ns)

    def p99_ms(self, from_ns: int, until_ns: int) -> float:
        """Raises LoadFailed if no message was due in this time."""
        times_ms = self.latencies_ms(from_ns, until_ns)
        if not times_ms:
            raise LoadFailed(f"{self._topic}: no message was acknowledged in that time")
        return percentile(times_ms, 0.99)

    def _run(self) -> None:
        producer, schedule, number = self._producer, SendSchedule(self._rate, time.monotonic_ns()), 0
        while not self._is_over.is_set():
            due_ns = schedule.due_ns(number, 0)
            while (early_ns := due_ns - time.monotonic_ns()) > 0:
                producer.poll(early_ns / NS_PER_S)
            producer.poll(0)
            self._send(producer, number % self._partitions, due_ns)
            number += 1

    def _send(self, producer: Producer, partition: int, due_ns: int) -> None:
        value = DUE.pack(due_ns) + self._filler
        while not self._is_over.is_set():
            try:
                producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
            except BufferError:
                producer.poll(0.1)
            else:
                return

    def _delivered(self, error: KafkaError | None, message: Message) -> None:
        now_ns = time.monotonic_ns()
        if error is not None:
            self.errors.append(f"{error.name()}: {error.str()}")
            return
        (due_ns,) = DUE.unpack_from(message.value() or b"")
        if due_ns != NEVER_DUE:
            self._due_ns.append(due_ns)
            self._acked_ns.append(now_ns)

    def _settle(self, producer: Producer) -> None:
        waiting = producer.flush(SETTLE_S_MAX)
        if waiting:
            raise LoadFailed(f"{waiting:,} messages were not acknowledged within {SETTLE_S_MAX:.0f} s.")


@contextmanager
def steady_load(
    bootstrap: str, topic: str, partitions: int, rate: float, size: int = 1024
) -> Iterator[SteadyLoad]:
    """A load that runs during the block; all its messages are settled afterwards."""
    load = SteadyLoad(bootstrap, topic, partitions, rate, size)
    load.start()
    try:
        yield load
    finally:
        load.stop()
