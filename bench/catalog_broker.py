"""The catalog of one broker on a shared metadata log, without the broker: creates topics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.node.cluster.catalog_host import CatalogHost
from penstock.node.cluster.metadata_log import MetadataLog
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.slices import Sliced


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


async def changes_per_s(brokers: Sequence[CatalogBroker], in_flight: int, count: int) -> float:
    """Changes per second with so many callers on each broker, each of which makes `count` changes."""
    started_s = time.perf_counter()
    await asyncio.gather(*(broker.create(count) for broker in brokers for _ in range(in_flight)))
    return len(brokers) * in_flight * count / (time.perf_counter() - started_s)
