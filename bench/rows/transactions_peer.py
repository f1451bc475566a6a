"""Transactional throughput of Kafka's own `kafka-producer-perf-test`, interleaved against Penstock and Apache Kafka.

Both servers stay up; the one that is not measured is paused. The first run against each does not count.
"""

from __future__ import annotations

import re
import subprocess
from contextlib import ExitStack

from bench.figures import Figure, figure
from bench.rdkafka_client import ClientFailed
from bench.session import TOPIC, Session
from penstock.apps.bench.compare.servers.kafka import Kafka, tool_command
from penstock.apps.bench.compare.servers.launcher import RunningServer, running_server
from penstock.apps.bench.compare.servers.penstock import Penstock
from penstock.apps.bench.harness.frames import create_topic_frame
from penstock.apps.bench.harness.loader import Loader
from penstock.apps.bench.harness.machine import on_cpu
from penstock.core.model import Durability

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
        for run in range(1 + session.pick(3, 1)):
            for name, server in servers.items():
                session.step(f"transactions of kafka-producer-perf-test, {name}")
                rate, mb_per_s = _run(session, server, f"bench-{run}", count)
                if run:
                    rates.setdefault(name, []).append(rate)
                    speeds.setdefault(name, []).append(mb_per_s)
    ours, theirs = rates[Penstock().name], rates[Kafka.name]
    workload = f"{count:,} records of {RECORD_BYTES} B, {PARTITIONS} partitions, {TRANSACTION_MS} ms each"
    figures = [
        figure(f"transactional records, {name}", "records/s", found, workload)
        for name, found in rates.items()
    ]
    figures += [
        figure(f"transactional records, {name}", "MB/s", found, workload) for name, found in speeds.items()
    ]
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    return [
        *figures,
        figure("transactional records, Penstock ÷ Kafka", "×", ratios, "the same run, interleaved"),
    ]


def _start(session: Session, stack: ExitStack) -> dict[str, RunningServer]:
    servers: dict[str, RunningServer] = {}
    for launcher in (Penstock(), Kafka()):
        launcher.prepare()
        home = stack.enter_context(session.home())
        server = stack.enter_context(running_server(launcher, home, session.cpus.server, Durability.OS))
        with Loader(server.address()) as loader:
            loader.call(create_topic_frame(TOPIC, PARTITIONS))
        server.process.pause()
        servers[launcher.name] = server
    return servers


def _run(session: Session, server: RunningServer, transactional_id: str, count: int) -> tuple[float, float]:
    """Run the tool once; returns the records and MB per second that it reports. Raises ClientFailed."""
    host, port = server.address()
    command = tool_command(
        TOOL, "--topic", TOPIC, "--num-records", str(count), *ARGUMENTS.split(),
        "--transactional-id", transactional_id, "--producer-props", f"bootstrap.servers={host}:{port}",
    )  # fmt: skip
    server.process.resume()
    try:
        with on_cpu(session.cpus.loader):
            done = subprocess.run(command, capture_output=True, text=True, timeout=RUN_S_MAX, check=False)
    finally:
        server.process.pause()
    output = done.stdout + done.stderr
    if done.returncode:
        raise ClientFailed(f"{TOOL} ended with code {done.returncode}: {output[-2000:]}")
    return parse(output, count)


def parse(output: str, count: int) -> tuple[float, float]:
    """Parse the last summary line. Raises ClientFailed unless all records were sent without an exception."""
    found = _RESULT.findall(output)
    if not found or int(found[-1][0]) != count or "Exception" in output:
        raise ClientFailed(f"{TOOL} did not send {count:,} records: {output[-2000:]}")
    return float(found[-1][1]), float(found[-1][2])
