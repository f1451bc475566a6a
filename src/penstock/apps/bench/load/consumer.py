"""Consume with librdkafka, from the start of a topic or from its end. Commits no offsets."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from penstock.apps.bench.load.plan import LoadFailed, LoadPlan, LoadResult, OnStep
from penstock.apps.bench.load.send_schedule import NS_PER_S

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Message

AT_ONCE = 10_000
SILENT_S_MAX = 30.0
POLL_S = 0.1
ANSWER_S_MAX = 10.0


def connect(plan: LoadPlan, *, at_end: bool) -> Consumer:
    """A consumer of every partition of the topic, from its start or from its current end. Raises LoadFailed."""
    from confluent_kafka import Consumer, TopicPartition

    from penstock.client.rdkafka.library import security_settings

    consumer = Consumer(
        {
            "bootstrap.servers": plan.bootstrap,
            "group.id": "penstock-bench",
            "client.id": "penstock-bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "fetch.wait.max.ms": 100,
            "log_level": 0,
            **security_settings(plan.security),
            **plan.client,
        }
    )
    found = consumer.list_topics(plan.topic, timeout=ANSWER_S_MAX).topics[plan.topic]
    if found.error is not None or not found.partitions:
        raise LoadFailed(
            f"Topic {plan.topic} does not exist; fill it with: penstock bench produce --topic {plan.topic}"
        )
    places = [TopicPartition(plan.topic, number) for number in sorted(found.partitions)]
    for place in places:
        place.offset = consumer.get_watermark_offsets(place, timeout=ANSWER_S_MAX)[at_end]
    consumer.assign(places)
    return consumer


def read_all(
    consumer: Consumer,
    count: int,
    take: Callable[[list[Message]], int],
    *,
    silent_s_max: float = SILENT_S_MAX,
) -> int:
    """Pass messages to `take` until it has counted `count`; returns the count. Raises LoadFailed if no more arrive."""
    seen = 0
    quiet_since = time.monotonic()
    while seen < count:
        first = consumer.poll(POLL_S)
        if first is None:
            if time.monotonic() - quiet_since > silent_s_max:
                raise LoadFailed(f"No message arrived for {silent_s_max:.0f} s after {seen:,} of {count:,}.")
            continue
        messages = [first, *consumer.consume(min(AT_ONCE, count - seen - 1), timeout=0)]
        for message in messages:
            if (error := message.error()) is not None:
                raise LoadFailed(f"{message.topic()}: {error.str()} ({error.name()})")
        seen += take(messages)
        quiet_since = time.monotonic()
    return seen


def consume(plan: LoadPlan, on_step: OnStep) -> LoadResult:
    """Read `plan.count` messages from the start of the topic, or all of them if there are fewer. Raises LoadFailed."""
    consumer = connect(plan, at_end=False)
    try:
        wanted = min(plan.count, _available(consumer))
        if not wanted:
            raise LoadFailed(
                f"Topic {plan.topic} is empty; fill it with: penstock bench produce --topic {plan.topic}"
            )
        totals = {"bytes": 0, "messages": 0}

        def take(messages: list[Message]) -> int:
            totals["bytes"] += sum(len(message.value() or b"") for message in messages)
            totals["messages"] += len(messages)
            on_step(totals["messages"])
            return len(messages)

        started_ns = time.monotonic_ns()
        seen = read_all(consumer, wanted, take)
        seconds = (time.monotonic_ns() - started_ns) / NS_PER_S
    finally:
        consumer.close()
    return LoadResult("consume", seen, totals["bytes"], seconds)


def _available(consumer: Consumer) -> int:
    """How many offsets the assigned partitions span."""
    ends = [consumer.get_watermark_offsets(place, timeout=ANSWER_S_MAX) for place in consumer.assignment()]
    return sum(high - low for low, high in ends)
