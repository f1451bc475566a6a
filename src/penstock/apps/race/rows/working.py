"""A work queue: sixteen workers, every message acknowledged by itself."""

from __future__ import annotations

from penstock.apps.race.course import Heat, Lap
from penstock.apps.race.lanes.lane import ingest_rate, work_rate
from penstock.apps.race.row import Line, Row

SIZE = 256
WORKERS = 16
WINDOW = 32
BATCH = 100
WHY = (
    "Penstock assigns, encodes, acknowledges and settles each message in Python. Deciding who gets a message is 2.4 to"
    " 3.5 µs of its CPU time per message; the frames and the settlement are the rest."
)


def _work_queue(heat: Heat) -> Lap:
    count = heat.course.pick(50_000, 10_000)
    with heat.queue(SIZE) as lane:
        feed = lane.feed()
        ingest_rate(feed, feed.load(BATCH), count, BATCH * 5)
        lane.make_group()
        workers = [lane.worker(number, WINDOW) for number in range(WORKERS)]
        with heat.spent() as spent:
            rate = work_rate(workers, count)
        for link in (feed.link, *(worker.link for worker in workers)):
            link.close()
    return Lap((rate,), count, spent.cpu_s)


WORK_QUEUE = Row(
    "work queue",
    (Line("8", "work queue, 16 workers, 256 B, acked one by one", "msg/s", True, 0.5, why=WHY),),
    _work_queue, SIZE,
)  # fmt: skip
