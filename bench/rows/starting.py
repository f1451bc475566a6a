"""From exec to ready, to the first acknowledged record, and the memory of a broker that does nothing."""

from __future__ import annotations

import subprocess
import sys
import time

from bench.server import Server
from bench.session import TOPIC, Session
from penstock.apps.measuring.figures import Figure, at_most, figure
from penstock.apps.measuring.frames import make_batch, produce_frame
from penstock.apps.measuring.loader import Loader
from penstock.apps.measuring.machine import on_cpu

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
        with session.home() as home:
            server = Server(home, session.cpus.server)
            readies.append(server.start())
            try:
                idle.append(server.resident_mb())
                with Loader(server.address) as loader:
                    loader.create_topics([TOPIC])
                    loader.produce(frame)
                    firsts.append((time.perf_counter_ns() - server.started_ns) / 1e6)
            finally:
                server.close()
    beside = f"python -c pass takes {figure('bare', 'ms', bare, '').value:.0f} ms"
    return [
        figure("exec to ready", "ms", readies, beside, at_most(READY_MS_MAX)),
        figure("exec to first acked record, fsync", "ms", firsts, "a new topic, made on the way"),
        figure("memory of an idle broker", "MB", idle, "resident, at ready", at_most(IDLE_MB_MAX)),
    ]


def _bare_python_ms(cpu: int) -> float:
    with on_cpu(cpu):
        start_ns = time.perf_counter_ns()
        subprocess.run([sys.executable, "-c", "pass"], check=True)
    return (time.perf_counter_ns() - start_ns) / 1e6
