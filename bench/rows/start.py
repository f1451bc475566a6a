"""Time from exec to ready and to the first acknowledged record, and the memory of an idle broker."""

from __future__ import annotations

import subprocess
import sys
import time

from bench.figures import Figure, at_most, figure
from bench.session import TOPIC, Session
from penstock.apps.bench.harness.frames import make_batch, produce_frame
from penstock.apps.bench.harness.loader import Loader
from penstock.apps.bench.harness.machine import on_cpu

READY_MS_MAX = 300
IDLE_MB_MAX = 60
STARTS = 7


def measure(session: Session) -> list[Figure]:
    frame = produce_frame(TOPIC, make_batch(1))
    readies: list[float] = []
    firsts: list[float] = []
    bare: list[float] = []
    idle: list[float] = []
    for _ in range(STARTS):
        session.step("exec to ready and to the first record")
        bare.append(_bare_python_ms(session.cpus.server))
        with session.stopped_broker() as server:
            readies.append(server.start())
            idle.append(server.process.resident_mb())
            with Loader(server.address) as loader:
                loader.create_topics([TOPIC])
                loader.produce(frame)
                firsts.append((time.perf_counter_ns() - server.process.started_ns) / 1e6)
    reference = f"python -c pass takes {figure('bare', 'ms', bare, '').value:.0f} ms"
    return [
        figure("exec to ready", "ms", readies, reference, at_most(READY_MS_MAX)),
        figure("exec to first acked record, fsync", "ms", firsts, "including the creation of its topic"),
        figure("memory of an idle broker", "MB", idle, "resident, at ready", at_most(IDLE_MB_MAX)),
    ]


def _bare_python_ms(cpu: int) -> float:
    with on_cpu(cpu):
        start_ns = time.perf_counter_ns()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
    return (time.perf_counter_ns() - start_ns) / 1e6
