"""A work queue: sixteen workers that acknowledge every message individually."""

from __future__ import annotations

from penstock.apps.bench.compare.drivers.driver import ingest_rate, work_rate
from penstock.apps.bench.compare.runs.row import Row, RowLine
from penstock.apps.bench.compare.runs.row_runner import RunContext, RunResult

SIZE = 256
WORKERS = 16
WINDOW = 32
BATCH = 100
WHY = (
    "Penstock assigns, encodes, acknowledges and settles each message in Python. Choosing the worker takes 2.4 to"
    " 3.5 µs of CPU time per message; frames and settlement take the rest."
)


def _work_queue(context: RunContext) -> RunResult:
    count = context.runner.pick(50_000, 10_000)
    with context.queue(SIZE) as driver:
        writer = driver.writer()
        ingest_rate(writer, writer.load(BATCH), count, BATCH * 5)
        driver.create_group()
        workers = [driver.worker(number, WINDOW) for number in range(WORKERS)]
        with context.cpu_time() as spent:
            rate = work_rate(workers, count)
        for link in (writer.link, *(worker.link for worker in workers)):
            link.close()
    return RunResult((rate,), count, spent.cpu_s)


WORK_QUEUE = Row(
    "work queue",
    (RowLine("8", "work queue, 16 workers, 256 B, acked one by one", "msg/s", True, 0.5, why=WHY),),
    _work_queue, SIZE,
)  # fmt: skip
