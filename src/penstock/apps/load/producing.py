"""Produce through librdkafka, each message timed from when it was due until it is acknowledged. Never retries.

One message to each partition goes first and is acknowledged before the clock starts: connecting and the first metadata
belong to no percentile.
"""

from __future__ import annotations

import os
import time
from array import array
from struct import Struct
from typing import TYPE_CHECKING

from penstock.apps.load.latency import Latency
from penstock.apps.load.pace import NS_PER_S, Pace
from penstock.apps.load.plan import LoadFailed, OnStep, Outcome, Plan

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

DUE = Struct(">q")
"""The first bytes of a value say when it was due, on the clock that all processes of a machine share."""
NEVER_DUE = -1
"""Stands there in the messages that open the connections; readers do not count them."""

STEP_COUNT = 1_000
SERVED_EVERY = 20
"""Without a pace acknowledgements are served once in so many messages: asking costs as much as sending one."""
SETTLE_S_MAX = 60.0
QUEUE_MESSAGES_MAX = 100_000


class Sending:
    """One producer at work."""

    def __init__(self, plan: Plan, on_step: OnStep) -> None:
        self._plan = plan
        self._on_step = on_step
        self._filler = os.urandom(max(0, plan.size - DUE.size))
        self._times_ns = array("q")
        self.acknowledged = 0
        self.failed = 0
        self.first_error: KafkaError | None = None

    def delivered(self, error: KafkaError | None, message: Message) -> None:
        now_ns = time.monotonic_ns()
        if error is not None:
            self.failed += 1
            self.first_error = self.first_error or error
            return
        value = message.value() or b""
        self._times_ns.append(now_ns - DUE.unpack_from(value)[0])
        self.acknowledged += 1
        if not self.acknowledged % STEP_COUNT:
            self._on_step(self.acknowledged)

    def connect(self, producer: Producer) -> None:
        """Have one message acknowledged by the leader of each partition, off the clock. Raises LoadFailed."""
        plan = self._plan
        found = producer.list_topics(plan.topic, SETTLE_S_MAX).topics[plan.topic]
        if found.error is not None:
            raise LoadFailed(f"{plan.topic}: {found.error.str()} ({found.error.name()})")
        value = DUE.pack(NEVER_DUE) + self._filler
        for partition in sorted(found.partitions):
            producer.produce(plan.topic, value, partition=partition, on_delivery=self._connected)
        self._settle(producer)

    def _connected(self, error: KafkaError | None, _message: Message) -> None:
        self.first_error = self.first_error or error

    def _settle(self, producer: Producer) -> None:
        waiting = producer.flush(SETTLE_S_MAX)
        if self.first_error is not None:
            raise LoadFailed(f"{self._plan.topic}: {self.first_error.str()} ({self.first_error.name()})")
        if waiting:
            raise LoadFailed(f"{waiting:,} messages were not acknowledged within {SETTLE_S_MAX:.0f} s.")

    def latency(self) -> Latency:
        """Times of all acknowledged messages; put together after the run, for it takes as long as sending."""
        latency = Latency()
        for time_ns in self._times_ns:
            latency.record(time_ns)
        return latency

    def run(self, producer: Producer) -> float:
        """Send everything; returns the seconds from the first message to the last acknowledgement."""
        plan = self._plan
        started_ns = time.monotonic_ns()
        pace = Pace(plan.rate, started_ns)
        for number in range(plan.count):
            if pace.is_open:
                self._await_due(producer, pace.due_ns(number, 0))
            elif not number % SERVED_EVERY:
                producer.poll(0)
            self._send(producer, pace.due_ns(number, time.monotonic_ns()))
            if self.first_error is not None:
                break
        self._settle(producer)
        return (time.monotonic_ns() - started_ns) / NS_PER_S

    def _await_due(self, producer: Producer, due_ns: int) -> None:
        """Serve acknowledgements until the message is due."""
        while (early_ns := due_ns - time.monotonic_ns()) > 0:
            producer.poll(early_ns / NS_PER_S)
        producer.poll(0)

    def _send(self, producer: Producer, due_ns: int) -> None:
        value = DUE.pack(due_ns) + self._filler
        while True:
            try:
                producer.produce(self._plan.topic, value, on_delivery=self.delivered)
            except BufferError:
                producer.poll(0.1)
            else:
                return


def produce(plan: Plan, on_step: OnStep) -> Outcome:
    """Send `plan.count` messages and wait for every acknowledgement. Raises LoadFailed."""
    from confluent_kafka import Producer

    check_size(plan)
    producer = Producer(
        {
            "bootstrap.servers": plan.bootstrap,
            "client.id": "penstock-bench",
            "acks": plan.acks,
            "enable.idempotence": plan.acks == "all",
            "compression.type": plan.compression,
            "linger.ms": plan.linger_ms,
            "batch.size": plan.batch_bytes,
            "queue.buffering.max.messages": QUEUE_MESSAGES_MAX,
            "log_level": 0,
            **plan.client,
        }
    )
    sending = Sending(plan, on_step)
    sending.connect(producer)
    seconds = sending.run(producer)
    on_step(sending.acknowledged)
    return Outcome(
        "produce",
        sending.acknowledged,
        sending.acknowledged * plan.size,
        seconds,
        sending.failed,
        plan.rate,
        sending.latency().summary_us(),
    )


def check_size(plan: Plan) -> None:
    if plan.size < DUE.size:
        raise LoadFailed(f"--size must be {DUE.size} or more: the message carries the time it was due.")
