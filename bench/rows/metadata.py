"""Changes of the catalog per second through the coordinator of a local cluster, against flushes of the same disk."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from bench.figures import Figure, at_least, figure
from bench.session import Session
from penstock.apps.bench.harness.machine import Disk, on_cpu
from penstock.apps.bench.harness.process import ServerProcess
from penstock.apps.bench.harness.samples import percentile
from penstock.apps.process import loop_factory
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.core.model import Address
from penstock.node.cluster.catalog_host import CatalogHost
from penstock.node.cluster.cluster_secret import read_secret
from penstock.node.cluster.metadata_link import CoordinatorAccess
from penstock.node.cluster.metadata_remote import RemoteMetadataLog
from penstock.node.runtime.clock import SystemClock, SystemRng
from penstock.node.runtime.memory import MemoryFiles
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.slices import Sliced
from penstock.node.runtime.workers import ThreadWorkers

IN_FLIGHT = 50
BROKERS = 5
CHANGES_PER_S_MIN = 1_000.0
GAIN_MIN = 5.0
EVENT_BYTES = 250


class _Broker:
    """The catalog of one broker; creates topics."""

    def __init__(self, access: CoordinatorAccess, runtime: Runtime) -> None:
        self._log = RemoteMetadataLog(access, runtime)
        self._catalog = Catalog()
        self._host = CatalogHost(self._log, self._catalog, runtime, self._apply)
        self._number = access.broker_id
        self._created = 0

    def _apply(self, events: Sequence[Event]) -> Sliced[None]:
        for event in events:
            self._catalog.apply(event)
            yield 1

    async def start(self) -> None:
        await self._log.open()
        await self._host.recover(0)
        await self._host.start(self._number)

    async def stop(self) -> None:
        await self._host.stop()
        await self._log.close()

    async def create(self, count: int) -> None:
        for _ in range(count):
            self._created += 1
            name = f"t{self._number}.{self._created}"
            topic_id = self._number.to_bytes(8, "big") + self._created.to_bytes(8, "big")
            await self._host.change(
                lambda catalog, name=name, topic_id=topic_id: catalog.decide_create_topic(  # type: ignore[misc]
                    name, 1, {}, topic_id=topic_id, now_ms=1
                )
            )


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
    brokers = [
        _Broker(CoordinatorAccess(address, secret, number), runtime) for number in range(1, BROKERS + 1)
    ]
    for broker in brokers:
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
        singles.append(await _rate(brokers[:1], 1, few))
        shared.append(await _rate(brokers[:1], IN_FLIGHT, many))
        contended.append(await _rate(brokers, IN_FLIGHT // BROKERS, many))
    disk.close()
    for broker in brokers:
        await broker.stop()
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


async def _rate(brokers: Sequence[_Broker], in_flight: int, count: int) -> float:
    """Changes per second with so many callers on each broker, each of which makes `count` changes."""
    started_s = time.perf_counter()
    await asyncio.gather(*(broker.create(count) for broker in brokers for _ in range(in_flight)))
    return len(brokers) * in_flight * count / (time.perf_counter() - started_s)
