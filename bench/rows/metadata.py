"""Changes of the catalog per second through the coordinator of a local cluster, against flushes of the same disk."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

from bench.catalog_broker import CatalogBroker, changes_per_s
from bench.figures import Figure, at_least, figure
from bench.session import Session
from penstock.apps.bench.harness.machine import Disk, on_cpu
from penstock.apps.bench.harness.process import ServerProcess
from penstock.apps.bench.harness.samples import percentile
from penstock.apps.process import loop_factory
from penstock.core.model import Address
from penstock.node.cluster.cluster_secret import read_secret
from penstock.node.cluster.metadata_link import CoordinatorAccess
from penstock.node.cluster.metadata_remote import RemoteMetadataLog
from penstock.node.runtime.clock import SystemClock, SystemRng
from penstock.node.runtime.memory import MemoryFiles
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.workers import ThreadWorkers

IN_FLIGHT = 50
BROKERS = 5
CHANGES_PER_S_MIN = 1_000.0
GAIN_MIN = 5.0
EVENT_BYTES = 250


def measure(session: Session) -> list[Figure]:
    with session.home() as home:
        command = [sys.executable, "-m", "penstock.apps.coordinator", "--data-dir", str(home / "data")]
        server = ServerProcess(command, home, session.cpus.server)
        try:
            server.await_ready(lambda: server.log_tail().endswith("}\n"))
            ready = json.loads(server.log_tail().splitlines()[-1])
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                return runner.run(_measure(session, home, ready))
        finally:
            server.kill()


async def _measure(session: Session, home: Path, ready: dict[str, str]) -> list[Figure]:
    workers = ThreadWorkers(asyncio.get_running_loop(), 1)
    runtime = Runtime(SystemClock(), SystemRng(), MemoryFiles(), workers)
    address, secret = Address(ready["host"], int(ready["port"])), read_secret(Path(ready["secret_file"]))
    logs = [
        RemoteMetadataLog(CoordinatorAccess(address, secret, number), runtime)
        for number in range(1, BROKERS + 1)
    ]
    brokers = [CatalogBroker(log, number, runtime) for number, log in enumerate(logs, 1)]
    for log, broker in zip(logs, brokers, strict=True):
        await log.open()
        await broker.start()
    disk = Disk(home, b"\xa5" * EVENT_BYTES)
    few, many = session.pick(300, 100), session.pick(30, 10)
    flushes: list[float] = []
    singles: list[float] = []
    shared: list[float] = []
    contended: list[float] = []
    for _ in range(session.pick(5, 3)):
        session.step("metadata changes through the coordinator")
        with on_cpu(session.cpus.server):
            flushes.append(1e6 / percentile(sorted(disk.flush_us() for _ in range(few)), 0.5))
        singles.append(await changes_per_s(brokers[:1], 1, few))
        shared.append(await changes_per_s(brokers[:1], IN_FLIGHT, many))
        contended.append(await changes_per_s(brokers, IN_FLIGHT // BROKERS, many))
    disk.close()
    for log, broker in zip(logs, brokers, strict=True):
        await broker.stop()
        await log.close()
    workers.close()
    flush, single = figure("plain", "1/s", flushes, ""), figure("single", "1/s", singles, "")
    gains = [many / one for many, one in zip(shared, singles, strict=True)]
    reference = f"append + fdatasync of one event: {flush.value:,.0f}/s"
    beside = f"one in flight: {single.value:,.0f} changes/s"
    name = f"metadata changes, {IN_FLIGHT} in flight"
    return [
        figure(f"{name}, against one", "×", gains, beside, at_least(GAIN_MIN)),
        figure(name, "changes/s", shared, reference, at_least(CHANGES_PER_S_MIN)),
        figure(
            f"metadata changes, {BROKERS} brokers × {IN_FLIGHT // BROKERS}", "changes/s", contended, beside
        ),
    ]
