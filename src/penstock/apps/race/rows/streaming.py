"""Rows over one stream: ingest, durable ingest, acknowledgement, replay, end to end, fan-out."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from penstock.apps.race.course import Heat, Lap
from penstock.apps.race.lanes.lane import (
    Feed,
    Lane,
    WriteLane,
    ack_times_us,
    end_to_end_us,
    fan_out_rate,
    ingest_rate,
    replay_rate,
)
from penstock.apps.race.lanes.pace import best_percentile
from penstock.apps.race.row import Line, Row
from penstock.apps.race.servers.runner import Promise

SMALL, KB = 100, 1024
BATCH_BYTES = 100_000
"""About what one request carries in the rows that batch."""
IN_FLIGHT_BATCHES = 5
DURABLE_BATCH, DURABLE_IN_FLIGHT = 100, 1_000
FAN_OUT = 8
OPEN_LOOP_RATE = 5_000
REPLAY_MESSAGES = 490_000
WARM_UP_LOADS = 10
ONE_BY_ONE = (
    "A request that carries one message costs Penstock a turn of the Python event loop. `perf` finds about half of"
    " that time in the interpreter and 42 % in the kernel."
)


def _ingest(heat: Heat, lane: WriteLane, batch: int, in_flight: int) -> Lap:
    """Messages a second. Half a lap runs before the clock and says how much a lap may hold."""
    feed = lane.feed()
    load = feed.load(batch)
    some = batch * WARM_UP_LOADS
    warm_at_s = time.monotonic() + heat.course.lap_s / 2
    rate = 0.0
    while time.monotonic() < warm_at_s:
        rate = ingest_rate(feed, load, some, in_flight)
    count = max(1, round(heat.course.lap_s * rate / some)) * some
    with heat.spent() as spent:
        rate = ingest_rate(feed, load, count, in_flight)
    feed.link.close()
    return Lap((rate,), count, spent.cpu_s)


def _ingest_small(heat: Heat) -> Lap:
    batch = BATCH_BYTES // SMALL
    with heat.stream(SMALL) as lane:
        return _ingest(heat, lane, batch, batch * IN_FLIGHT_BATCHES)


def _ingest_kb(heat: Heat) -> Lap:
    batch = BATCH_BYTES // KB
    with heat.stream(KB) as lane:
        lap = _ingest(heat, lane, batch, batch * IN_FLIGHT_BATCHES)
    return lap._replace(values=(lap.values[0] * KB / 1e6,))


def _durable_ingest(heat: Heat) -> Lap:
    with heat.flushed_stream(KB) as lane:
        return _ingest(heat, lane, DURABLE_BATCH, DURABLE_IN_FLIGHT)


def _ack_latency(heat: Heat) -> Lap:
    count = heat.course.pick(5_000, 2_000)
    with heat.stream(KB) as lane:
        feed = lane.feed()
        ack_times_us(feed, 500)
        with heat.spent() as spent:
            times_us = ack_times_us(feed, count)
        feed.link.close()
    return Lap((best_percentile(times_us, 0.5), best_percentile(times_us, 0.99)), count, spent.cpu_s)


def fill(lane: Lane, count: int) -> Feed:
    """Messages of 1 KB, acknowledged, as fast as they are taken."""
    batch = BATCH_BYTES // KB
    feed = lane.feed()
    ingest_rate(feed, feed.load(batch), count, batch * IN_FLIGHT_BATCHES)
    return feed


@contextmanager
def _backlog(heat: Heat, count: int) -> Iterator[Lane]:
    with heat.stream(KB) as lane:
        fill(lane, count).link.close()
        yield lane


def _replay(heat: Heat) -> Lap:
    batch = BATCH_BYTES // KB
    count = heat.course.pick(REPLAY_MESSAGES, REPLAY_MESSAGES // 5) // batch * batch
    tail = heat.once("backlog", lambda: _backlog(heat, count)).tail(from_start=True)
    with heat.spent() as spent:
        rate = replay_rate(tail, count)
    tail.link.close()
    return Lap((rate * KB / 1e6,), count, spent.cpu_s)


def _end_to_end(heat: Heat) -> Lap:
    count = heat.course.pick(15_000, 5_000)
    with heat.stream(KB) as lane:
        feed = lane.feed()
        ingest_rate(feed, feed.load(1), 100, 1)
        tail = lane.tail(from_start=False)
        with heat.spent() as spent:
            times_us = end_to_end_us(feed, tail, count, OPEN_LOOP_RATE)
        for link in (feed.link, tail.link):
            link.close()
    settled = times_us[len(times_us) // 10 :]
    return Lap(
        (best_percentile(settled, 0.99) / 1000, best_percentile(settled, 0.5) / 1000), count, spent.cpu_s
    )


def _fan_out(heat: Heat) -> Lap:
    batch = BATCH_BYTES // KB
    count = heat.course.pick(50_000, 10_000) // batch * batch
    with heat.stream(KB) as lane:
        feed = fill(lane, batch)
        load = feed.load(batch)
        tails = [lane.tail(from_start=False) for _ in range(FAN_OUT)]
        with heat.spent() as spent:
            rate = fan_out_rate(feed, tails, load, count, batch * IN_FLIGHT_BATCHES)
        for link in (feed.link, *(tail.link for tail in tails)):
            link.close()
    return Lap((rate * KB * FAN_OUT / 1e6,), count * FAN_OUT, spent.cpu_s)


INGEST_SMALL = Row(
    "ingest 100 B", (Line("1", "ingest, 100 B, batched, os", "msg/s", True, 1.0),), _ingest_small, SMALL
)
INGEST_KB = Row("ingest 1 KB", (Line("2", "ingest, 1 KB, batched, os", "MB/s", True, 1.0),), _ingest_kb, KB)
DURABLE_INGEST = Row(
    "durable ingest",
    (Line("3", "ingest, 1 KB, fsync before ack, 1,000 in flight", "msg/s", True, 3.0),),
    _durable_ingest, KB, Promise.FSYNC,
)  # fmt: skip
ACK_LATENCY = Row(
    "ack latency",
    (
        Line("4", "ack, 1 KB, one in flight, os, p50", "us", False, 0.7, {"Kafka": 1.0}, why=ONE_BY_ONE),
        Line("4b", "ack, 1 KB, one in flight, os, p99", "us", False, why=ONE_BY_ONE),
    ),
    _ack_latency, KB,
)  # fmt: skip
REPLAY = Row("replay", (Line("5", "replay of 500 MB, 1 KB, one consumer", "MB/s", True, 1.0),), _replay, KB)
END_TO_END = Row(
    "end to end",
    (
        Line("6", "end to end at 5,000 msg/s, 1 KB, p99", "ms", False, 0.7, {"Kafka": 1.0}, why=ONE_BY_ONE),
        Line("6b", "end to end at 5,000 msg/s, 1 KB, p50", "ms", False, why=ONE_BY_ONE),
    ),
    _end_to_end, KB, steady_at=1,
)  # fmt: skip
FAN_OUT_ROW = Row(
    "fan-out", (Line("7", "fan-out, 1 producer, 8 consumers, 1 KB", "MB/s", True, 1.0),), _fan_out, KB
)
