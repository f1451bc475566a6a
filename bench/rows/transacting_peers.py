"""Transactional throughput of Kafka's own `kafka-producer-perf-test`, against Penstock and Apache Kafka in turns.

Both servers stay up; the one that is not measured is paused. The first run against each is not counted.
"""

from __future__ import annotations

import re
import subprocess
from contextlib import ExitStack

from bench.rdkafka import ClientFailed
from bench.session import TOPIC, Session
from penstock.apps.measuring.figures import Figure, figure
from penstock.apps.measuring.frames import create_topic_frame
from penstock.apps.measuring.loader import Loader
from penstock.apps.measuring.machine import on_cpu
from penstock.apps.race.servers.kafka import Kafka, tool_command
from penstock.apps.race.servers.penstock import Penstock
from penstock.apps.race.servers.runner import Promise, Running, running

TOOL = "org.apache.kafka.tools.ProducerPerformance"
PARTITIONS = 10
RECORD_BYTES = 100
TRANSACTION_MS = 100
RUN_S_MAX = 120
ARGUMENTS = f"--record-size {RECORD_BYTES} --throughput -1 --transaction-duration-ms {TRANSACTION_MS}"
_RESULT = re.compile(r"(\d+) records sent, ([\d.]+) records/sec \(([\d.]+) MB/sec\)")


def measure(session: Session) -> list[Figure]:
    count = session.pick(200_000, 50_000)
    rates: dict[str, list[float]] = {}
    speeds: dict[str, list[float]] = {}
    with ExitStack() as stack:
        servers = _start(session, stack)
        for lap in range(1 + session.pick(3, 1)):
            for name, server in servers.items():
                session.step(f"transactions of kafka-producer-perf-test, {name}")
                rate, mb_per_s = _run(session, server, f"bench-{lap}", count)
                if lap:
                    rates.setdefault(name, []).append(rate)
                    speeds.setdefault(name, []).append(mb_per_s)
    ours, theirs = rates[Penstock.name], rates[Kafka.name]
    told = f"{count:,} records of {RECORD_BYTES} B, {PARTITIONS} partitions, a transaction every {TRANSACTION_MS} ms"
    figures = [
        figure(f"transactional records, {name}", "records/s", found, told) for name, found in rates.items()
    ]
    figures += [
        figure(f"transactional records, {name}", "MB/s", found, told) for name, found in speeds.items()
    ]
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    return [
        *figures,
        figure("transactional records, Penstock ÷ Kafka", "×", ratios, "the same run, in turns"),
    ]


def _start(session: Session, stack: ExitStack) -> dict[str, Running]:
    servers: dict[str, Running] = {}
    for runner in (Penstock(), Kafka()):
        runner.prepare()
        home = stack.enter_context(session.home())
        server = stack.enter_context(running(runner, home, session.cpus.server, Promise.OS))
        with Loader(server.address()) as loader:
            loader.call(create_topic_frame(TOPIC, PARTITIONS))
        server.process.pause()
        servers[runner.name] = server
    return servers


def _run(session: Session, server: Running, transactional_id: str, count: int) -> tuple[float, float]:
    """One run of the tool; returns records and MB a second as it reports them. Raises ClientFailed."""
    host, port = server.address()
    words = tool_command(
        TOOL, "--topic", TOPIC, "--num-records", str(count), *ARGUMENTS.split(),
        "--transactional-id", transactional_id, "--producer-props", f"bootstrap.servers={host}:{port}",
    )  # fmt: skip
    server.process.resume()
    try:
        with on_cpu(session.cpus.loader):
            done = subprocess.run(words, capture_output=True, text=True, timeout=RUN_S_MAX, check=False)
    finally:
        server.process.pause()
    found = _RESULT.findall(done.stdout)
    if done.returncode or not found or int(found[-1][0]) != count or "Exception" in done.stdout + done.stderr:
        raise ClientFailed(f"{TOOL} ended with code {done.returncode}: {(done.stdout + done.stderr)[-2000:]}")
    return float(found[-1][1]), float(found[-1][2])
