"""From exec to the first record that was acknowledged and read, and the memory of a server that has done that."""

from __future__ import annotations

import time

from penstock.apps.race.course import Course, Lap
from penstock.apps.race.entrants import Entrant
from penstock.apps.race.lanes.lane import ingest_rate, replay_rate
from penstock.apps.race.row import Line, standings
from penstock.apps.race.servers.runner import Promise
from penstock.apps.race.standing import Standing

SIZE = 100
STARTS = 2
"""The quicker one counts, as the quickest piece does in other rows."""
LEAST = {"Kafka": 5.0, "RabbitMQ": 5.0}
WHY = (
    "Python with asyncio, uvloop and click takes 23 MB and most of the start-up time before the first line of the"
    " broker; NATS and Redis are native programs."
)
LINES = (
    Line("10", "exec to the first acked and consumed record", "ms", False, over=LEAST, why=WHY),
    Line("10b", "memory of all its processes then", "MB", False, over=LEAST, why=WHY),
)


def first_message(course: Course) -> list[Standing]:
    def start(entrant: Entrant) -> Lap:
        with course.started(entrant, Promise.OS) as server:
            lane = entrant.lane(server, SIZE, course.new_name())
            lane.make_stream()
            feed = lane.feed()
            ingest_rate(feed, feed.load(1), 1, 1)
            replay_rate(lane.tail(from_start=True), 1)
            first_ms = (time.perf_counter_ns() - server.process.started_ns) / 1e6
            return Lap((first_ms, server.process.resident_mb()), 1, server.process.cpu_s())

    def run(entrant: Entrant) -> Lap:
        return min(start(entrant) for _ in range(course.pick(STARTS, 1)))

    return standings(LINES, course.race_fresh("first message", run), 0)
