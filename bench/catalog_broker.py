"""Changes of the catalog per second through any shared metadata log, without brokers around it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from bench.session import Session
from penstock.apps.bench.harness.machine import Disk, on_cpu
from penstock.apps.bench.harness.samples import percentile
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.node.cluster.catalog_host import CatalogHost
from penstock.node.cluster.metadata_log import MetadataLog
from penstock.node.runtime.clock import SystemClock, SystemRng
from penstock.node.runtime.memory import MemoryFiles
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.slices import Sliced
from penstock.node.runtime.workers import ThreadWorkers

EVENT_BYTES = 250


class OpenableLog(MetadataLog, Protocol):
    """A metadata log with a connection."""

    async def open(self) -> None: ...

    async def close(self) -> None: ...


class CatalogBroker:
    """Follows the log and appends to it, as broker `number`. The log is open, and its opener closes it."""

    def __init__(self, log: MetadataLog, number: int, runtime: Runtime) -> None:
        self._catalog = Catalog()
        self._host = CatalogHost(log, self._catalog, runtime, self._apply)
        self._number = number
        self._created = 0

    def _apply(self, events: Sequence[Event]) -> Sliced[None]:
        for event in events:
            self._catalog.apply(event)
            yield 1

    async def start(self) -> None:
        await self._host.recover(0)
        self._host.start()

    async def stop(self) -> None:
        await self._host.stop()

    async def create(self, count: int) -> None:
        """Create topics, one after the other."""
        for _ in range(count):
            self._created += 1
            name = f"t{self._number}.{self._created}"
            topic_id = self._number.to_bytes(8, "big") + self._created.to_bytes(8, "big")
            await self._host.change(
                lambda catalog, name=name, topic_id=topic_id: catalog.decide_create_topic(  # type: ignore[misc]
                    name, 1, {}, topic_id=topic_id, now_ms=1
                )
            )


class ChangeRates(NamedTuple):
    """Changes per second, one sample per round."""

    flushes: list[float]
    """Appends of one event with fdatasync, for comparison."""
    singles: list[float]
    """One caller on one broker."""
    shared: list[float]
    """Many callers on one broker."""
    contended: list[float]
    """As many callers, spread over all brokers."""


class ChangeLoad(NamedTuple):
    """How much is measured in one round."""

    what: str
    in_flight: int
    singles: int
    """Changes of the only caller."""
    each: int
    """Changes of each of many callers."""


async def measure_changes(
    session: Session, home: Path, open_logs: Callable[[Runtime], list[OpenableLog]], load: ChangeLoad
) -> ChangeRates:
    """Change the catalog through one log per broker."""
    workers = ThreadWorkers(asyncio.get_running_loop(), 1)
    runtime = Runtime(SystemClock(), SystemRng(), MemoryFiles(), workers)
    logs = open_logs(runtime)
    brokers = [CatalogBroker(log, number, runtime) for number, log in enumerate(logs, 1)]
    for log, broker in zip(logs, brokers, strict=True):
        await log.open()
        await broker.start()
    disk, rates = Disk(home, b"\xa5" * EVENT_BYTES), ChangeRates([], [], [], [])
    for _ in range(session.pick(5, 3)):
        session.step(load.what)
        with on_cpu(session.cpus.server):
            flush_us = percentile(sorted(disk.flush_us() for _ in range(load.singles)), 0.5)
        rates.flushes.append(1e6 / flush_us)
        rates.singles.append(await _changes_per_s(brokers[:1], 1, load.singles))
        rates.shared.append(await _changes_per_s(brokers[:1], load.in_flight, load.each))
        rates.contended.append(await _changes_per_s(brokers, load.in_flight // len(brokers), load.each))
    disk.close()
    for log, broker in zip(logs, brokers, strict=True):
        await broker.stop()
        await log.close()
    workers.close()
    return rates


async def _changes_per_s(brokers: Sequence[CatalogBroker], in_flight: int, count: int) -> float:
    """With so many callers on each broker, each of which makes `count` changes."""
    started_s = time.perf_counter()
    await asyncio.gather(*(broker.create(count) for broker in brokers for _ in range(in_flight)))
    return len(brokers) * in_flight * count / (time.perf_counter() - started_s)
