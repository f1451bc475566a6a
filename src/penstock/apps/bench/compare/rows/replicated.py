"""Rows over three brokers with three replicas of every partition: ingest with acks=all, and acknowledgement latency."""

from __future__ import annotations

import time

from penstock.apps.bench.compare.drivers.driver import spread_ingest_rate
from penstock.apps.bench.compare.drivers.replicated import replicated_topic
from penstock.apps.bench.compare.rows.streams import BATCH_BYTES, KB
from penstock.apps.bench.compare.runs.row import Row, RowLine
from penstock.apps.bench.compare.runs.row_runner import RunContext, RunResult
from penstock.apps.bench.load.plan import LoadPlan
from penstock.apps.bench.load.producer import produce_load
from penstock.core.model import Durability

PARTITIONS = 6
CONNECTIONS, IN_FLIGHT_BATCHES = 2, 2
"""For each partition. Kafka handles the requests of a connection one after the other: one connection would measure its
round trips."""
WARM_UP_LOADS = 20
LATENCY_RATE = 1_000


def ingest(context: RunContext) -> RunResult:
    """MB per second. An untimed half run determines how many messages a run sends."""
    batch = BATCH_BYTES // KB
    with replicated_topic(context.cluster, context.runner.new_name(), PARTITIONS) as topic:
        writers = topic.writers(KB, CONNECTIONS)
        loads = [writer.load(batch) for writer in writers]
        some = batch * len(writers) * WARM_UP_LOADS
        warm_at_s = time.monotonic() + context.runner.run_s / 2
        rate = 0.0
        while time.monotonic() < warm_at_s:
            rate = spread_ingest_rate(writers, loads, some, batch * IN_FLIGHT_BATCHES)
        count = max(1, round(context.runner.run_s * rate / some)) * some
        with context.cpu_time() as spent:
            rate = spread_ingest_rate(writers, loads, count, batch * IN_FLIGHT_BATCHES)
        for writer in writers:
            writer.link.close()
    return RunResult((rate * KB / 1e6,), count, spent.cpu_s)


def _latency(context: RunContext) -> RunResult:
    with replicated_topic(context.cluster, context.runner.new_name(), PARTITIONS) as topic:
        plan = LoadPlan(
            context.cluster.bootstrap, topic.topic, context.runner.pick(8_000, 2_000), KB, rate=LATENCY_RATE,
            linger_ms=0.0,
        )  # fmt: skip
        with context.cpu_time() as spent:
            found = produce_load(plan, lambda _done: None)
    p50_us, p99_us = (found.latency_us[name] for name in ("p50", "p99"))
    return RunResult((p50_us / 1000, p99_us / 1000), found.messages, spent.cpu_s)


_COPIES = (
    "Three brokers and the load share the CPUs of one machine. Each record is received, written and sent on by three"
    " brokers, and `perf` attributes 42 % of the time of Penstock's to the kernel, for copies that Kafka needs as well."
)
INGEST = Row(
    "replicated ingest",
    (RowLine("15", "RF 3, acks=all: ingest, 1 KB, batched, os", "MB/s", True, 1.5, why=_COPIES),),
    ingest, KB,
)  # fmt: skip
DURABLE_INGEST = Row(
    "replicated durable ingest",
    (RowLine("16", "RF 3, acks=all: ingest, 1 KB, batched, fsync before ack", "MB/s", True, 3.0),),
    ingest, KB, Durability.FSYNC,
)  # fmt: skip
LATENCY = Row(
    "replicated latency",
    (
        RowLine("17", "RF 3, acks=all: librdkafka, ack at 1,000 msg/s, 1 KB, os, p50", "ms", False),
        RowLine("17b", "RF 3, acks=all: librdkafka, ack at 1,000 msg/s, 1 KB, os, p99", "ms", False, 1.0),
    ),
    _latency, KB,
)  # fmt: skip
