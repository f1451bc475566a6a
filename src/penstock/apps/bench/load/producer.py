"""Produce with librdkafka; the latency of a message counts from when it was due until its acknowledgement.

One message per partition is sent and acknowledged before the clock starts, so that connecting and the first metadata
request are in no percentile.
"""

from __future__ import annotations

import os
import time
from array import array
from struct import Struct
from typing import TYPE_CHECKING

from penstock.apps.bench.load.latency import Latency
from penstock.apps.bench.load.plan import LoadFailed, LoadPlan, LoadResult, OnStep
from penstock.apps.bench.load.send_schedule import NS_PER_S, SendSchedule

if TYPE_CHECKING:
    from confluent_kafka import KafkaError, Message, Producer

DUE = Struct(">q")
"""The first bytes of a value are its due time, on the monotonic clock that all processes of a machine share."""
NEVER_DUE = -1
"""Due time of the messages that only open connections; readers do not count them."""

STEP_COUNT = 1_000
POLLED_EVERY = 20
"""Without a rate, acknowledgements are polled once per this many messages: a poll costs as much as sending one."""
SETTLE_S_MAX = 60.0
QUEUE_MESSAGES_MAX = 100_000


class ProducerRun:
    """The messages of one producer and their acknowledgements."""

    def __init__(self, plan: LoadPlan, on_step: OnStep) -> None:
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
        """Send one untimed message to each partition and wait for the acknowledgements. Raises LoadFailed."""
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
        """Latencies of all acknowledged messages. Built after the run, since it takes as long as run."""
        latency = Latency()
        for time_ns in self._times_ns:
            latency.record(time_ns)
        return latency

    def run(self, producer: Producer) -> float:
        """Send all messages; returns the seconds from the first message to the last acknowledgement."""
        plan = self._plan
        started_ns = time.monotonic_ns()
        schedule = SendSchedule(plan.rate, started_ns)
        for number in range(plan.count):
            if schedule.is_open:
                self._await_due(producer, schedule.due_ns(number, 0))
            elif not number % POLLED_EVERY:
                producer.poll(0)
            self._send(producer, schedule.due_ns(number, time.monotonic_ns()))
            if self.first_error is not None:
                break
        self._settle(producer)
        return (time.monotonic_ns() - started_ns) / NS_PER_S

    def _await_due(self, producer: Producer, due_ns: int) -> None:
        """Poll for acknowledgements until the message is due."""
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


def produce_load(plan: LoadPlan, on_step: OnStep) -> LoadResult:
    """Send `plan.count` messages and wait for every acknowledgement. Raises LoadFailed."""
    from confluent_kafka import Producer

    from penstock.client.rdkafka.library import security_settings

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
            **security_settings(plan.security),
            **plan.client,
        }
    )
    run = ProducerRun(plan, on_step)
    run.connect(producer)
    seconds = run.run(producer)
    on_step(run.acknowledged)
    return LoadResult(
        "produce",
        run.acknowledged,
        run.acknowledged * plan.size,
        seconds,
        run.failed,
        plan.rate,
        run.latency().summary_us(),
    )


def check_size(plan: LoadPlan) -> None:
    if plan.size < DUE.size:
        raise LoadFailed(f"--size must be {DUE.size} or more: a message carries its due time.")
