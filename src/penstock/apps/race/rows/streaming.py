"""Rows over one stream: ingest, durable ingest, acknowledgement, replay, end to end, fan-out."""

from __future__ import annotations

import time

from penstock.apps.race.course import Course, Figures, Samples
from penstock.apps.race.entrants import Entrant
from penstock.apps.race.lanes.lane import (
    Feed,
    Load,
    ack_times_us,
    end_to_end_us,
    fan_out_rate,
    ingest_rate,
    replay_rate,
)
from penstock.apps.race.lanes.pace import best_percentile
from penstock.apps.race.servers.runner import Promise
from penstock.apps.race.standing import Standing

SMALL, KB = 100, 1024
BATCH_BYTES = 100_000
"""About what one request carries in the rows that batch."""
IN_FLIGHT_BATCHES = 5
DURABLE_BATCH, DURABLE_IN_FLIGHT = 100, 1_000
FAN_OUT = 8
OPEN_LOOP_RATE = 5_000
REPLAY_MESSAGES = 490_000
WARM_UP_LOADS = 10


def warm_rate(course: Course, feed: Feed, load: Load, in_flight: int) -> float:
    """Messages a second once the server is warm, measured for a lap or longer: the quickest of the last that came
    before says how much a lap may hold."""
    some = load.messages * WARM_UP_LOADS
    warm_at_s = time.monotonic() + course.lap_s
    rate = 0.0
    while time.monotonic() < warm_at_s:
        rate = ingest_rate(feed, load, some, in_flight)
    count = max(1, round(course.lap_s * rate / some)) * some
    return ingest_rate(feed, load, count, in_flight)


def _ingest(course: Course, size: int, unit: float = 1) -> tuple[Samples, ...]:
    """Messages a second, batched, acknowledged; in units of so many."""
    batch = BATCH_BYTES // size

    def run(entrant: Entrant) -> Figures:
        with course.started(entrant, Promise.OS) as server:
            lane = entrant.lane(server, size)
            lane.make_stream()
            feed = lane.feed()
            return (warm_rate(course, feed, feed.load(batch), batch * IN_FLIGHT_BATCHES) / unit,)

    return course.take_turns(f"ingest {size} B", run)


def ingest_small(course: Course) -> list[Standing]:
    (samples,) = _ingest(course, SMALL)
    return [Standing("1", "ingest, 100 B, batched, os", "msg/s", samples, True, 1.0)]


def ingest_kb(course: Course) -> list[Standing]:
    (samples,) = _ingest(course, KB, 1e6 / KB)
    return [Standing("2", "ingest, 1 KB, batched, os", "MB/s", samples, True, 1.0)]


def durable_ingest(course: Course) -> list[Standing]:
    def run(entrant: Entrant) -> Figures:
        with course.started(entrant, Promise.FSYNC) as server:
            lane = entrant.flushed_lane(server, KB)
            lane.make_stream()
            feed = lane.feed()
            return (warm_rate(course, feed, feed.load(DURABLE_BATCH), DURABLE_IN_FLIGHT),)

    (samples,) = course.take_turns("durable ingest", run)
    return [Standing("3", "ingest, 1 KB, fsync before ack, 1,000 in flight", "msg/s", samples, True, 3.0)]


def ack_latency(course: Course) -> list[Standing]:
    def run(entrant: Entrant) -> Figures:
        with course.started(entrant, Promise.OS) as server:
            lane = entrant.lane(server, KB)
            lane.make_stream()
            feed = lane.feed()
            ack_times_us(feed, 1_000)
            times_us = ack_times_us(feed, course.pick(5_000, 2_000))
        return best_percentile(times_us, 0.5), best_percentile(times_us, 0.99)

    p50s, p99s = course.take_turns("ack latency", run, 2)
    return [
        Standing("4", "ack, 1 KB, one in flight, os, p50", "us", p50s, False, 0.7, over={"Kafka": 1.0}),
        Standing("4b", "the same, p99", "us", p99s, False),
    ]


def replay(course: Course) -> list[Standing]:
    def run(entrant: Entrant) -> Figures:
        batch = BATCH_BYTES // KB
        count = course.pick(REPLAY_MESSAGES, REPLAY_MESSAGES // 5) // batch * batch
        with course.started(entrant, Promise.OS) as server:
            lane = entrant.lane(server, KB)
            lane.make_stream()
            feed = lane.feed()
            ingest_rate(feed, feed.load(batch), count, batch * IN_FLIGHT_BATCHES)
            return (replay_rate(lane.tail(from_start=True), count) * KB / 1e6,)

    (samples,) = course.take_turns("replay", run)
    return [
        Standing("5", f"replay of {course.pick(500, 100)} MB, 1 KB, one consumer", "MB/s", samples, True, 1.0)
    ]


def end_to_end(course: Course) -> list[Standing]:
    def run(entrant: Entrant) -> Figures:
        with course.started(entrant, Promise.OS) as server:
            lane = entrant.lane(server, KB)
            lane.make_stream()
            feed = lane.feed()
            ingest_rate(feed, feed.load(1), 100, 1)
            tail = lane.tail(from_start=False)
            times_us = end_to_end_us(feed, tail, course.pick(20_000, 10_000), OPEN_LOOP_RATE)
        settled = times_us[len(times_us) // 10 :]
        return best_percentile(settled, 0.99) / 1000, best_percentile(settled, 0.5) / 1000

    p99s, p50s = course.take_turns("end to end", run, 2)
    return [
        Standing(
            "6", "end to end, open loop of 5,000/s, 1 KB, p99", "ms", p99s, False, 0.7, over={"Kafka": 1.0}
        ),
        Standing("6b", "the same, p50", "ms", p50s, False),
    ]


def fan_out(course: Course) -> list[Standing]:
    def run(entrant: Entrant) -> Figures:
        batch = BATCH_BYTES // KB
        count = course.pick(100_000, 20_000) // batch * batch
        with course.started(entrant, Promise.OS) as server:
            lane = entrant.lane(server, KB)
            lane.make_stream()
            feed = lane.feed()
            load = feed.load(batch)
            ingest_rate(feed, load, batch, batch)
            tails = [lane.tail(from_start=False) for _ in range(FAN_OUT)]
            rate = fan_out_rate(feed, tails, load, count, batch * IN_FLIGHT_BATCHES)
            return (rate * KB * FAN_OUT / 1e6,)

    (samples,) = course.take_turns("fan-out", run)
    return [Standing("7", "fan-out, one producer, 8 consumers, 1 KB", "MB/s", samples, True, 1.0)]
