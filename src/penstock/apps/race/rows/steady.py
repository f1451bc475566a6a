"""Memory over ten minutes of writing and reading, with a log that retention keeps short. Run only by name."""

from __future__ import annotations

import time

from penstock.apps.measuring.frames import create_topic_frame
from penstock.apps.measuring.loader import Loader
from penstock.apps.race.course import Course
from penstock.apps.race.entrants import OURS, Entrant
from penstock.apps.race.lanes.lane import ingest_rate, replay_rate
from penstock.apps.race.rows.streaming import BATCH_BYTES, IN_FLIGHT_BATCHES, KB
from penstock.apps.race.servers.runner import Promise
from penstock.apps.race.standing import Standing

RUN_S, QUICK_RUN_S = 600, 30
WARM_UP_SHARE = 0.1
ROUND_BATCHES = 50
KEPT_BYTES, SEGMENT_BYTES = 256 << 20, 64 << 20
REST_S = 0.25
GROWTH_MAX = 1.1


def steady_memory(course: Course) -> list[Standing]:
    """Ours alone: what it holds at the end, against what it held when a tenth of the time was over."""
    (ours,) = (one for one in course.entrants if one.runner.name == OURS)
    course.on_step("steady memory")
    held_mb = _run(course, ours, course.pick(RUN_S, QUICK_RUN_S))
    growth, last = {OURS: [held_mb[-1] / held_mb[0]]}, {OURS: [max(held_mb)]}
    minutes = course.pick(RUN_S, QUICK_RUN_S) / 60
    return [
        Standing("12", f"memory after {minutes:g} minutes of load ÷ after a tenth of them", "×", growth, False,
                 bound_max=GROWTH_MAX),
        Standing("12b", "the most it held in that time", "MB", last, False),
    ]  # fmt: skip


def _run(course: Course, entrant: Entrant, run_s: float) -> list[float]:
    """Memory after each round, from when the server is warm."""
    batch = BATCH_BYTES // KB
    count = batch * ROUND_BATCHES
    held_mb: list[float] = []
    with course.started(entrant, Promise.OS) as server:
        topic = course.new_name()
        lane = entrant.lane(server, KB, topic)
        with Loader(server.address()) as loader:
            loader.call(create_topic_frame(topic, 1, retention_bytes=KEPT_BYTES, segment_bytes=SEGMENT_BYTES))
        feed = lane.feed()
        load = feed.load(batch)
        start_s = time.monotonic()
        while (elapsed_s := time.monotonic() - start_s) < run_s:
            tail = lane.tail(from_start=False)
            ingest_rate(feed, load, count, batch * IN_FLIGHT_BATCHES)
            replay_rate(tail, count)
            tail.link.close()
            if elapsed_s >= run_s * WARM_UP_SHARE:
                held_mb.append(server.process.resident_mb())
            time.sleep(REST_S)
    return held_mb
