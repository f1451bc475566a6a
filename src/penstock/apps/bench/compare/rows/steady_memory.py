"""Memory during ten minutes of writing and reading a log that retention keeps short. Runs only if named."""

from __future__ import annotations

import time

from penstock.apps.bench.compare.drivers.driver import ingest_rate, replay_rate
from penstock.apps.bench.compare.rows.streams import BATCH_BYTES, IN_FLIGHT_BATCHES, KB
from penstock.apps.bench.compare.runs.contenders import OURS, Contender
from penstock.apps.bench.compare.runs.line_result import LineResult
from penstock.apps.bench.compare.runs.row_runner import RowRunner
from penstock.apps.bench.harness.frames import create_topic_frame
from penstock.apps.bench.harness.loader import Loader
from penstock.core.model import Durability

RUN_S, QUICK_RUN_S = 600, 30
WARM_UP_SHARE = 0.1
ROUND_BATCHES = 50
RETENTION_BYTES, SEGMENT_BYTES = 256 << 20, 64 << 20
REST_S = 0.25
GROWTH_MAX = 1.1


def steady_memory(runner: RowRunner) -> list[LineResult]:
    """Penstock only: memory at the end compared with the memory after a tenth of the time."""
    (ours,) = (one for one in runner.contenders if one.launcher.name == OURS)
    runner.on_step("steady memory")
    held_mb = _run(runner, ours, runner.pick(RUN_S, QUICK_RUN_S))
    growth, last = {OURS: [held_mb[-1] / held_mb[0]]}, {OURS: [max(held_mb)]}
    minutes = runner.pick(RUN_S, QUICK_RUN_S) / 60
    return [
        LineResult("12", f"memory after {minutes:g} minutes of load ÷ after a tenth of that", "×", growth, False,
                 bound_max=GROWTH_MAX),
        LineResult("12b", "peak memory in that time", "MB", last, False),
    ]  # fmt: skip


def _run(runner: RowRunner, contender: Contender, run_s: float) -> list[float]:
    """Memory after each round, once the server is warm."""
    batch = BATCH_BYTES // KB
    count = batch * ROUND_BATCHES
    held_mb: list[float] = []
    with runner.started(contender, Durability.OS) as server:
        topic = runner.new_name()
        driver = contender.stream_driver(server, KB, topic)
        with Loader(server.address()) as loader:
            loader.call(
                create_topic_frame(topic, 1, retention_bytes=RETENTION_BYTES, segment_bytes=SEGMENT_BYTES)
            )
        writer = driver.writer()
        load = writer.load(batch)
        start_s = time.monotonic()
        while (elapsed_s := time.monotonic() - start_s) < run_s:
            reader = driver.reader(from_start=False)
            ingest_rate(writer, load, count, batch * IN_FLIGHT_BATCHES)
            replay_rate(reader, count)
            reader.link.close()
            if elapsed_s >= run_s * WARM_UP_SHARE:
                held_mb.append(server.process.resident_mb())
            time.sleep(REST_S)
    return held_mb
