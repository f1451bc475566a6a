"""Periodic maintenance of a node: retention, compaction, recovery points. Never on the path of a request.

Every round processes the partitions one by one and yields in between, so that requests go first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol
from weakref import WeakKeyDictionary

from penstock.core.errors import BrokerError, DiskFailed, DiskFull, OutOfDescriptors
from penstock.node import checkpoint
from penstock.node.cluster.metadata_file import DIRECTORY as METADATA_DIRECTORY
from penstock.node.replicas.partition import Partition
from penstock.node.replicas.upkeep import compact_partition, retain_partition
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.tasks import Tasks
from penstock.node.runtime.workers import run_blocking
from penstock.node.storage_settings import StorageSettings

logger = logging.getLogger("penstock.janitor")

CHECKPOINT_BYTES_MIN = 16 << 20
"""A partition's state is saved after this many bytes: it bounds what recovery after a crash has to scan."""


class MaintainedLog(Protocol):
    """The metadata log, as far as it needs maintenance by this node."""

    @property
    def metadata_end(self) -> int:
        """The index that this node has seen: a log that ends before it is refused."""

    async def compact(self) -> None: ...


class Janitor:
    """The maintenance rounds of one node."""

    def __init__(
        self,
        runtime: Runtime,
        settings: StorageSettings,
        partitions: Callable[[], list[Partition]],
        metadata: MaintainedLog,
        recovery_points: dict[str, int],
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._partitions = partitions
        self._metadata = metadata
        self._recovery_points = recovery_points
        self._saved_bytes: WeakKeyDictionary[Partition, int] = WeakKeyDictionary()
        self._tasks = Tasks()
        self._points_turn = asyncio.Lock()
        """An older state must not be written over a newer one."""

    def start(self) -> None:
        self._tasks.spawn(self._repeat(self._settings.retention_check_ms, self.retain))
        self._tasks.spawn(self._repeat(self._settings.compaction_check_ms, self.compact))
        self._tasks.spawn(self._repeat(self._settings.checkpoint_interval_ms, self.save_points))

    async def stop(self) -> None:
        await self._tasks.stop()

    async def _repeat(self, every_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(every_ms / 1000)
            await work()

    async def retain(self) -> None:
        """Delete expired segments, and roll active segments that have reached their maximum age."""
        for partition in self._partitions():
            if partition.failure is None:
                with _or_offline(partition):
                    retain_partition(self._runtime, partition, self._settings.producer_expiry_ms)
            await asyncio.sleep(0)

    async def compact(self) -> None:
        """Compact the logs that are dirty enough. A log that cannot be compacted is left unchanged, with an error
        logged."""
        for partition in self._partitions():
            if partition.failure is None:
                try:
                    await compact_partition(self._runtime, partition)
                except DiskFailed as error:
                    partition.fail(error)
                except BrokerError as error:
                    logger.error(
                        "cannot compact %s; the next round retries: %s",
                        partition,
                        error,
                        extra={"topic": partition.topic, "partition": partition.index},
                    )
            await asyncio.sleep(0)
        try:
            await self._metadata.compact()
        except BrokerError as error:
            logger.error("cannot compact the metadata log; the next round retries: %s", error)

    async def save_points(self) -> None:
        """Save the state of partitions that have grown, then the recovery points, to keep crash recovery short."""
        changed = self._metadata.metadata_end != self._recovery_points.get(METADATA_DIRECTORY, 0)
        for partition in self._partitions():
            if partition.failure is None and self._has_grown(partition):
                changed = True
                await self._save(partition)
        if not changed:
            return
        self._recovery_points[METADATA_DIRECTORY] = self._metadata.metadata_end
        try:
            await self.write_points()
        except BrokerError as error:
            logger.error(
                "cannot save recovery points; retrying in %d ms, recovery after a crash would take longer: %s",
                self._settings.checkpoint_interval_ms,
                error,
            )

    async def write_points(self) -> None:
        """Write the recovery points as they are now."""
        async with self._points_turn:
            save = partial(checkpoint.save_recovery_points, self._runtime.files, dict(self._recovery_points))
            await run_blocking(self._runtime.workers, save)

    async def _save(self, partition: Partition) -> None:
        """Syncs first: where no producer waits for a flush, nothing else would advance the recovery point."""
        written_bytes = partition.log.written_bytes
        await partition.sync_dirty()
        if partition.failure is None:
            with _or_offline(partition):
                partition.log.save_state()
                self._saved_bytes[partition] = written_bytes
                self._recovery_points[partition.log.directory] = partition.recovery_point

    def _has_grown(self, partition: Partition) -> bool:
        grown_bytes = partition.log.written_bytes - self._saved_bytes.get(partition, 0)
        return grown_bytes >= CHECKPOINT_BYTES_MIN


@contextmanager
def _or_offline(partition: Partition) -> Iterator[None]:
    """Take the partition offline if its maintenance fails. A full disk or a lack of descriptors is retried in the next
    round."""
    try:
        yield
    except (DiskFull, OutOfDescriptors) as full:
        logger.error(
            "maintenance of %r failed; the next round retries: %s",
            partition,
            full,
            extra={"topic": partition.topic, "partition": partition.index},
        )
    except BrokerError as error:
        partition.fail(error)
