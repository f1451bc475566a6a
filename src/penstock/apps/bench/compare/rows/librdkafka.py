"""Rows over librdkafka, for the servers that speak Kafka's protocol.

They send the load of `penstock bench produce` and `penstock bench e2e`, which measure any Kafka broker the same way.
"""

from __future__ import annotations

from penstock.apps.bench.compare.drivers.kafka import KafkaDriver
from penstock.apps.bench.compare.rows.streams import KB, OPEN_LOOP_RATE
from penstock.apps.bench.compare.runs.row import Row, RowLine
from penstock.apps.bench.compare.runs.row_runner import RunContext, RunResult, created
from penstock.apps.bench.load.end_to_end import end_to_end
from penstock.apps.bench.load.plan import LoadPlan
from penstock.apps.bench.load.producer import produce_load

IN_FLIGHT = 2_000
LINGER_MS = 1.0
OTHER_PROTOCOL = dict.fromkeys(("NATS", "Redis", "RabbitMQ"), "does not speak Kafka's protocol")


def _plan(
    context: RunContext, topic: str, count: int, linger_ms: float, rate: float | None = None
) -> LoadPlan:
    host, port = context.server.address()
    client = {"queue.buffering.max.messages": str(IN_FLIGHT)}
    return LoadPlan(
        f"{host}:{port}", topic, count, KB, acks="1", client=client, linger_ms=linger_ms, rate=rate
    )


def _ingest(context: RunContext) -> RunResult:
    with created(KafkaDriver(context.server.address(), KB, context.runner.new_name())) as driver:
        plan = _plan(context, driver.topic, context.runner.pick(300_000, 50_000), LINGER_MS)
        with context.cpu_time() as spent:
            found = produce_load(plan, _ignore)
    p50_us, p99_us = (found.latency_us[name] for name in ("p50", "p99"))
    return RunResult((found.mb_per_s, p50_us / 1000, p99_us / 1000), found.messages, spent.cpu_s)


def _end_to_end(context: RunContext) -> RunResult:
    with created(KafkaDriver(context.server.address(), KB, context.runner.new_name())) as driver:
        plan = _plan(context, driver.topic, context.runner.pick(15_000, 5_000), 0.0, OPEN_LOOP_RATE)
        with context.cpu_time() as spent:
            found = end_to_end(plan, _ignore)
    p50_us, p99_us = (found.latency_us[name] for name in ("p50", "p99"))
    return RunResult((p50_us / 1000, p99_us / 1000), found.messages, spent.cpu_s)


def _ignore(_done: int) -> None:
    """No progress bar while the clock is running."""


CLIENT_INGEST = Row(
    "librdkafka ingest",
    (
        RowLine("13", "librdkafka: ingest, 1 KB, acks=1, 2,000 in flight", "MB/s", True, 1.0),
        RowLine("13b", "librdkafka: ingest, 1 KB, acks=1, 2,000 in flight, p50", "ms", False, 1.0),
        RowLine("13c", "librdkafka: ingest, 1 KB, acks=1, 2,000 in flight, p99", "ms", False, 1.0),
    ),
    _ingest, KB, without=OTHER_PROTOCOL,
)  # fmt: skip
CLIENT_END_TO_END = Row(
    "librdkafka end to end",
    (
        RowLine("14", "librdkafka: end to end at 5,000 msg/s, 1 KB, p50", "ms", False, 1.0),
        RowLine("14b", "librdkafka: end to end at 5,000 msg/s, 1 KB, p99", "ms", False, 1.0),
    ),
    _end_to_end, KB, without=OTHER_PROTOCOL,
)  # fmt: skip
