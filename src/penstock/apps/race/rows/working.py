"""A queue of work: sixteen workers, every message acknowledged by itself."""

from __future__ import annotations

from penstock.apps.race.course import Course, Figures
from penstock.apps.race.entrants import Entrant
from penstock.apps.race.lanes.lane import ingest_rate, work_rate
from penstock.apps.race.servers.runner import Promise
from penstock.apps.race.standing import Standing

SIZE = 256
WORKERS = 16
WINDOW = 32
BATCH = 100


def work_queue(course: Course) -> list[Standing]:
    count = course.pick(50_000, 10_000)

    def run(entrant: Entrant) -> Figures | None:
        if entrant.work is None:
            return None
        with course.started(entrant, Promise.OS) as server:
            lane = entrant.work(server.address(entrant.work_door), SIZE)
            lane.make_stream()
            feed = lane.feed()
            ingest_rate(feed, feed.load(BATCH), count, BATCH * 5)
            lane.make_group()
            return (work_rate([lane.worker(number, WINDOW) for number in range(WORKERS)], count),)

    (samples,) = course.take_turns("work queue", run)
    absent = {one.runner.name: one.no_work_because for one in course.entrants if one.work is None}
    return [
        Standing("8", "work queue, 16 workers, 256 B, acked one by one", "msg/s", samples, True, 0.5, absent)
    ]
