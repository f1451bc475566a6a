"""From exec to the first record that was acknowledged and read, and the memory of a server that has done that."""

from __future__ import annotations

import time

from penstock.apps.race.course import Course, Figures
from penstock.apps.race.entrants import Entrant
from penstock.apps.race.lanes.lane import ingest_rate, replay_rate
from penstock.apps.race.servers.runner import Promise
from penstock.apps.race.standing import Standing

SIZE = 100
STARTS = 2
"""The quicker one counts, as the quickest piece does in other rows."""
LEAST = {"Kafka": 5.0, "RabbitMQ": 5.0}
"""How many times sooner and smaller than these it should be; the others are reported as they are."""


def first_message(course: Course) -> list[Standing]:
    def start(entrant: Entrant) -> Figures:
        with course.started(entrant, Promise.OS) as server:
            lane = entrant.lane(server, SIZE)
            lane.make_stream()
            feed = lane.feed()
            ingest_rate(feed, feed.load(1), 1, 1)
            replay_rate(lane.tail(from_start=True), 1)
            first_ms = (time.perf_counter_ns() - server.process.started_ns) / 1e6
            return first_ms, server.process.resident_mb()

    def run(entrant: Entrant) -> Figures:
        return min(start(entrant) for _ in range(course.pick(STARTS, 1)))

    first, idle = course.take_turns("first message", run, 2)
    return [
        Standing("10", "exec to the first acked and consumed record", "ms", first, False, over=LEAST),
        Standing("10b", "memory of all its processes then", "MB", idle, False, over=LEAST),
    ]
