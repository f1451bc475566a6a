"""Rows through a real client, librdkafka, for the two servers that speak Kafka's protocol.

The load is that of `penstock bench produce` and `penstock bench e2e`: the same figures can be had against any broker.
"""

from __future__ import annotations

from penstock.apps.load.end_to_end import end_to_end
from penstock.apps.load.plan import Plan
from penstock.apps.load.producing import produce
from penstock.apps.race.course import Heat, Lap, made
from penstock.apps.race.lanes.kafka import KafkaLane
from penstock.apps.race.row import Line, Row
from penstock.apps.race.rows.streaming import KB, OPEN_LOOP_RATE

IN_FLIGHT = 2_000
LINGER_MS = 1.0
OTHER_PROTOCOL = dict.fromkeys(("NATS", "Redis", "RabbitMQ"), "it does not speak Kafka's protocol")


def _plan(heat: Heat, topic: str, count: int, linger_ms: float, rate: float | None = None) -> Plan:
    host, port = heat.server.address()
    client = {"queue.buffering.max.messages": str(IN_FLIGHT)}
    return Plan(f"{host}:{port}", topic, count, KB, acks="1", client=client, linger_ms=linger_ms, rate=rate)


def _ingest(heat: Heat) -> Lap:
    with made(KafkaLane(heat.server.address(), KB, heat.course.new_name())) as lane:
        plan = _plan(heat, lane.topic, heat.course.pick(300_000, 50_000), LINGER_MS)
        with heat.spent() as spent:
            found = produce(plan, _ignore)
    p50_us, p99_us = (found.latency_us[name] for name in ("p50", "p99"))
    return Lap((found.mb_per_s, p50_us / 1000, p99_us / 1000), found.messages, spent.cpu_s)


def _end_to_end(heat: Heat) -> Lap:
    with made(KafkaLane(heat.server.address(), KB, heat.course.new_name())) as lane:
        plan = _plan(heat, lane.topic, heat.course.pick(15_000, 5_000), 0.0, OPEN_LOOP_RATE)
        with heat.spent() as spent:
            found = end_to_end(plan, _ignore)
    p50_us, p99_us = (found.latency_us[name] for name in ("p50", "p99"))
    return Lap((p50_us / 1000, p99_us / 1000), found.messages, spent.cpu_s)


def _ignore(_done: int) -> None:
    """No progress bar while the clock runs."""


CLIENT_INGEST = Row(
    "librdkafka ingest",
    (
        Line("13", "librdkafka: ingest, 1 KB, acks=1, 2,000 in flight", "MB/s", True, 1.0),
        Line("13b", "librdkafka: ingest, 1 KB, acks=1, 2,000 in flight, p50", "ms", False, 1.0),
        Line("13c", "librdkafka: ingest, 1 KB, acks=1, 2,000 in flight, p99", "ms", False, 1.0),
    ),
    _ingest, KB, without=OTHER_PROTOCOL,
)  # fmt: skip
CLIENT_END_TO_END = Row(
    "librdkafka end to end",
    (
        Line("14", "librdkafka: end to end at 5,000 msg/s, 1 KB, p50", "ms", False, 1.0),
        Line("14b", "librdkafka: end to end at 5,000 msg/s, 1 KB, p99", "ms", False, 1.0),
    ),
    _end_to_end, KB, without=OTHER_PROTOCOL,
)  # fmt: skip
