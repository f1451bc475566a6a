"""Time from exec to the first record that was acknowledged and read, and the memory of the server at that point."""

from __future__ import annotations

import time

from penstock.apps.bench.compare.drivers.driver import ingest_rate, replay_rate
from penstock.apps.bench.compare.runs.contenders import Contender
from penstock.apps.bench.compare.runs.line_result import LineResult
from penstock.apps.bench.compare.runs.row import RowLine, line_results
from penstock.apps.bench.compare.runs.row_runner import RowRunner, RunResult
from penstock.core.model import Durability

SIZE = 100
STARTS = 2
"""The faster one counts, like the fastest window in other rows."""
LEAST = {"Kafka": 5.0, "RabbitMQ": 5.0}
WHY = (
    "Python with asyncio, uvloop and click takes 23 MB and most of the start-up time before the broker's own code runs;"
    " NATS and Redis are native programs."
)
LINES = (
    RowLine("10", "exec to the first acked and consumed record", "ms", False, over=LEAST, why=WHY),
    RowLine("10b", "memory of all server processes at that point", "MB", False, over=LEAST, why=WHY),
)


def first_message(runner: RowRunner) -> list[LineResult]:
    def start(contender: Contender) -> RunResult:
        with runner.started(contender, Durability.OS) as server:
            driver = contender.stream_driver(server, SIZE, runner.new_name())
            driver.create_stream()
            writer = driver.writer()
            ingest_rate(writer, writer.load(1), 1, 1)
            replay_rate(driver.reader(from_start=True), 1)
            first_ms = (time.perf_counter_ns() - server.process.started_ns) / 1e6
            return RunResult((first_ms, server.process.resident_mb()), 1, server.process.cpu_s())

    def run(contender: Contender) -> RunResult:
        return min(start(contender) for _ in range(runner.pick(STARTS, 1)))

    return line_results(LINES, runner.run_fresh("first message", run), 0)
