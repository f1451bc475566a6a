"""What a node does by itself, now and then: retention, compaction, recovery points. Never runs on a request's path.

Every round works through the partitions one by one and yields in between, so that requests come first.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from penstock.core.errors import BrokerError, DiskFailed, DiskFull
from penstock.node import checkpoint
from penstock.node.metadata import DIRECTORY as METADATA_DIRECTORY
from penstock.node.metadata import Metadata
from penstock.node.partition import Partition
from penstock.node.runtime import Runtime
from penstock.node.settings import Settings
from penstock.node.workers import run_blocking

logger = logging.getLogger("penstock.janitor")

CHECKPOINT_BYTES_MIN = 16 << 20
"""A partition's state is saved once this much was written since: it bounds what a start after a crash has to read."""


class Janitor:
    """The rounds of one node."""

    def __init__(
        self,
        runtime: Runtime,
        settings: Settings,
        partitions: Callable[[], list[Partition]],
        metadata: Metadata,
        recovery_points: dict[str, int],
    ) -> None:
        self._runtime = runtime
        self._settings = settings
        self._partitions = partitions
        self._metadata = metadata
        self._recovery_points = recovery_points
        self._saved_bytes: dict[str, int] = {}
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        rounds: list[tuple[str, int, Callable[[], Awaitable[None]]]] = [
            ("retention", self._settings.retention_check_ms, self.retain),
            ("compaction", self._settings.compaction_check_ms, self.compact),
            ("checkpoint", self._settings.checkpoint_interval_ms, self.save_points),
        ]
        for name, every_ms, work in rounds:
            task = asyncio.create_task(self._repeat(every_ms, work), name=name)
            task.add_done_callback(_report_crash)
            self._tasks.append(task)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _repeat(self, every_ms: int, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(every_ms / 1000)
            await work()

    async def retain(self) -> None:
        """Drop what is too old or too much, and close segments that are too old to be written any more."""
        for partition in self._partitions():
            if partition.failure is None:
                _attempt(partition, partial(partition.retain, self._settings.producer_expiry_ms))
            await asyncio.sleep(0)

    async def compact(self) -> None:
        """Compact what is worth it. A log that cannot be compacted is left as it is, and said."""
        for partition in self._partitions():
            if partition.failure is None:
                try:
                    await partition.compact()
                except DiskFailed as error:
                    partition.fail(error)
                except BrokerError as error:
                    logger.error("%s was not compacted: %s", partition, error)
            await asyncio.sleep(0)
        try:
            await self._metadata.compact()
        except BrokerError as error:
            logger.error("the metadata log was not compacted: %s", error)

    async def save_points(self) -> None:
        """Save the state of partitions that grew, then the recovery points, so that a crash costs little to
        recover from."""
        changed = self._metadata.log.visible.offset != self._recovery_points.get(METADATA_DIRECTORY, 0)
        for partition in self._partitions():
            if partition.failure is None and self._has_grown(partition):
                if not _attempt(partition, partition.log.save_state):
                    continue
                changed = True
                self._recovery_points[partition.log.directory] = partition.durable_offset
                await asyncio.sleep(0)
        if not changed:
            return
        self._recovery_points[METADATA_DIRECTORY] = self._metadata.log.visible.offset
        points = dict(self._recovery_points)
        try:
            await run_blocking(
                self._runtime.workers, partial(checkpoint.save_recovery_points, self._runtime.files, points)
            )
        except BrokerError as error:
            logger.error("recovery points were not saved; a start after a crash will take longer: %s", error)

    def _has_grown(self, partition: Partition) -> bool:
        written_bytes = partition.log.written_bytes
        if written_bytes - self._saved_bytes.get(partition.log.directory, 0) < CHECKPOINT_BYTES_MIN:
            return False
        self._saved_bytes[partition.log.directory] = written_bytes
        return True


def _attempt(partition: Partition, work: Callable[[], None]) -> bool:
    """Do a piece of work on a partition. A full disk puts it off; any other failure takes the partition offline."""
    try:
        work()
    except DiskFull as error:
        logger.warning("%r: put off until there is space: %s", partition, error)
        return False
    except BrokerError as error:
        partition.fail(error)
        return False
    return True


def _report_crash(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.critical("the %s rounds have crashed: this is a defect in Penstock", task.get_name(), exc_info=error)
