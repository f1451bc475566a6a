"""Checksums of ranges of one replica, computed in a worker. A replica whose own batches are damaged fails here, whoever
asked."""

from __future__ import annotations

import logging
from functools import partial

from penstock.core.errors import CorruptBatch, DiskFailed, OffsetOutOfRange, TornSegment
from penstock.core.log.range_checksum import (
    RangeChecksum,
    RangePlan,
    checksum_range,
    choose_end,
    is_current,
    plan_range,
)
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.workers import run_blocking

logger = logging.getLogger("penstock.scrub")

RANGE_BYTES = 4 << 20
"""About how much is read at a time."""
TO_NEXT_END = -1
"""The end of a range that is as long as the others."""


async def checksum_of(runtime: Runtime, partition: Partition, start: int, end: int) -> RangeChecksum:
    """Raises CorruptBatch if batches are damaged: the replica fails then, if another one is in sync. Raises
    OffsetOutOfRange if the replica does not have exactly this range (any more)."""
    partition.check_online()
    log, plan = partition.log, None
    try:
        if end == TO_NEXT_END:
            end = choose_end(log, start, log.end_offset, RANGE_BYTES)
        plan = plan_range(log, start, end)
        found = await run_blocking(runtime.workers, partial(checksum_range, runtime.files, plan))
    except DiskFailed as error:
        partition.fail(error)
        raise
    except (CorruptBatch, TornSegment) as error:
        raise _damage(partition, plan, start, error) from error
    if partition.failure is not None or not is_current(log, plan):
        raise OffsetOutOfRange(f"{partition}: offset {start} was deleted while it was read")
    for segment in log.segments[:-1]:
        if segment.base_offset in found.rebuilt:
            segment.retire()
            logger.warning(
                "rebuilt the damaged index of a segment from its batches",
                extra={"topic": partition.topic, "partition": partition.index, "file": segment.file.path},
            )
    return found


def _damage(
    partition: Partition, plan: RangePlan | None, start: int, error: CorruptBatch | TornSegment
) -> CorruptBatch | OffsetOutOfRange:
    if partition.failure is None and plan is not None and not is_current(partition.log, plan):
        return OffsetOutOfRange(f"{partition}: offset {start} was deleted while it was read")
    damage = CorruptBatch(f"{partition}: records from offset {start} on are damaged: {error}")
    if partition.failure is None:
        partition.damage.refuse(start, error)
        partition.report_damage(damage)
    return damage
