"""Rows over one stream: ingest, durable ingest, acknowledgement latency, replay, end to end, fan-out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.apps.bench.compare.drivers.driver import (
    StreamDriver,
    WriteConnection,
    WriteDriver,
    ack_times_us,
    end_to_end_us,
    fan_out_rate,
    ingest_rate,
    replay_rate,
)
from penstock.apps.bench.compare.runs.row import Row, RowLine
from penstock.apps.bench.compare.runs.row_runner import RunContext, RunResult
from penstock.apps.bench.harness.windows import best_percentile
from penstock.core.model import Durability

SMALL, KB = 100, 1024
BATCH_BYTES = 100_000
"""Approximate size of a request in rows with batches."""
IN_FLIGHT_BATCHES = 5
DURABLE_BATCH, DURABLE_IN_FLIGHT = 100, 1_000
FAN_OUT = 8
OPEN_LOOP_RATE = 5_000
REPLAY_MESSAGES = 490_000
WARM_UP_LOADS = 10
ONE_BY_ONE = (
    "Each request with a single message costs Penstock one iteration of the Python event loop. `perf` attributes about"
    " half of that time to the interpreter and 42 % to the kernel."
)


def _ingest(context: RunContext, driver: WriteDriver, batch: int, in_flight: int) -> RunResult:
    """Messages per second. An untimed half run determines how many messages a run sends."""
    writer = driver.writer()
    load = writer.load(batch)
    some = batch * WARM_UP_LOADS
    warm_at_s = time.monotonic() + context.runner.run_s / 2
    rate = 0.0
    while time.monotonic() < warm_at_s:
        rate = ingest_rate(writer, load, some, in_flight)
    count = max(1, round(context.runner.run_s * rate / some)) * some
    with context.cpu_time() as spent:
        rate = ingest_rate(writer, load, count, in_flight)
    writer.link.close()
    return RunResult((rate,), count, spent.cpu_s)


def _ingest_small(context: RunContext) -> RunResult:
    batch = BATCH_BYTES // SMALL
    with context.stream(SMALL) as driver:
        return _ingest(context, driver, batch, batch * IN_FLIGHT_BATCHES)


def _ingest_kb(context: RunContext) -> RunResult:
    batch = BATCH_BYTES // KB
    with context.stream(KB) as driver:
        run = _ingest(context, driver, batch, batch * IN_FLIGHT_BATCHES)
    return run._replace(values=(run.values[0] * KB / 1e6,))


def _durable_ingest(context: RunContext) -> RunResult:
    with context.flushed_stream(KB) as driver:
        return _ingest(context, driver, DURABLE_BATCH, DURABLE_IN_FLIGHT)


def _ack_latency(context: RunContext) -> RunResult:
    count = context.runner.pick(5_000, 2_000)
    with context.stream(KB) as driver:
        writer = driver.writer()
        ack_times_us(writer, 500)
        with context.cpu_time() as spent:
            times_us = ack_times_us(writer, count)
        writer.link.close()
    return RunResult((best_percentile(times_us, 0.5), best_percentile(times_us, 0.99)), count, spent.cpu_s)


def fill(driver: StreamDriver, count: int) -> WriteConnection:
    """Write messages of 1 KB at full speed and wait for their acknowledgements."""
    batch = BATCH_BYTES // KB
    writer = driver.writer()
    ingest_rate(writer, writer.load(batch), count, batch * IN_FLIGHT_BATCHES)
    return writer


@contextmanager
def _backlog(context: RunContext, count: int) -> Iterator[StreamDriver]:
    with context.stream(KB) as driver:
        fill(driver, count).link.close()
        yield driver


def _replay(context: RunContext) -> RunResult:
    batch = BATCH_BYTES // KB
    count = context.runner.pick(REPLAY_MESSAGES, REPLAY_MESSAGES // 5) // batch * batch
    reader = context.once("backlog", lambda: _backlog(context, count)).reader(from_start=True)
    with context.cpu_time() as spent:
        rate = replay_rate(reader, count)
    reader.link.close()
    return RunResult((rate * KB / 1e6,), count, spent.cpu_s)


def _end_to_end(context: RunContext) -> RunResult:
    count = context.runner.pick(15_000, 5_000)
    with context.stream(KB) as driver:
        writer = driver.writer()
        ingest_rate(writer, writer.load(1), 100, 1)
        reader = driver.reader(from_start=False)
        with context.cpu_time() as spent:
            times_us = end_to_end_us(writer, reader, count, OPEN_LOOP_RATE)
        for link in (writer.link, reader.link):
            link.close()
    settled = times_us[len(times_us) // 10 :]
    return RunResult(
        (best_percentile(settled, 0.99) / 1000, best_percentile(settled, 0.5) / 1000), count, spent.cpu_s
    )


def _fan_out(context: RunContext) -> RunResult:
    batch = BATCH_BYTES // KB
    count = context.runner.pick(50_000, 10_000) // batch * batch
    with context.stream(KB) as driver:
        writer = fill(driver, batch)
        load = writer.load(batch)
        readers = [driver.reader(from_start=False) for _ in range(FAN_OUT)]
        with context.cpu_time() as spent:
            rate = fan_out_rate(writer, readers, load, count, batch * IN_FLIGHT_BATCHES)
        for link in (writer.link, *(reader.link for reader in readers)):
            link.close()
    return RunResult((rate * KB * FAN_OUT / 1e6,), count * FAN_OUT, spent.cpu_s)


INGEST_SMALL = Row(
    "ingest 100 B", (RowLine("1", "ingest, 100 B, batched, os", "msg/s", True, 1.0),), _ingest_small, SMALL
)
INGEST_KB = Row(
    "ingest 1 KB", (RowLine("2", "ingest, 1 KB, batched, os", "MB/s", True, 1.0),), _ingest_kb, KB
)
DURABLE_INGEST = Row(
    "durable ingest",
    (RowLine("3", "ingest, 1 KB, fsync before ack, 1,000 in flight", "msg/s", True, 3.0),),
    _durable_ingest, KB, Durability.FSYNC,
)  # fmt: skip
ACK_LATENCY = Row(
    "ack latency",
    (
        RowLine("4", "ack, 1 KB, one in flight, os, p50", "us", False, 0.7, {"Kafka": 1.0}, why=ONE_BY_ONE),
        RowLine("4b", "ack, 1 KB, one in flight, os, p99", "us", False, why=ONE_BY_ONE),
    ),
    _ack_latency, KB,
)  # fmt: skip
REPLAY = Row(
    "replay", (RowLine("5", "replay of 500 MB, 1 KB, one consumer", "MB/s", True, 1.0),), _replay, KB
)
END_TO_END = Row(
    "end to end",
    (
        RowLine("6", "end to end at 5,000 msg/s, 1 KB, p99", "ms", False, 0.7, {"Kafka": 1.0}, why=ONE_BY_ONE),
        RowLine("6b", "end to end at 5,000 msg/s, 1 KB, p50", "ms", False, why=ONE_BY_ONE),
    ),
    _end_to_end, KB, steady_at=1,
)  # fmt: skip
FAN_OUT_ROW = Row(
    "fan-out", (RowLine("7", "fan-out, 1 producer, 8 consumers, 1 KB", "MB/s", True, 1.0),), _fan_out, KB
)
