"""Retention and compaction of one partition, called by the janitor. Never on the path of a request."""

from __future__ import annotations

from penstock.core.log.compaction import roll_is_due
from penstock.core.log.retention import active_is_expired, expired_count
from penstock.node.replicas.compactor import compact
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.runtime import Runtime


def retain_partition(runtime: Runtime, partition: Partition, producer_expiry_ms: int) -> None:
    """Delete expired segments.

    An expired active segment is rolled first and deleted in the next round.
    """
    log, config, now_ms = partition.log, partition.config, runtime.clock.now_ms()
    log.producers.expire(now_ms, producer_expiry_ms)
    if config.cleanup_delete:
        limits = {
            "now_ms": now_ms,
            "retention_ms": config.retention_ms,
            "retention_bytes": config.retention_bytes,
        }
        if active_is_expired(log, **limits):
            log.roll(now_ms)
            partition.start_sync()
            return
        log.drop_first(expired_count(log, **limits))
    if log.active_is_older_than(log.limits.segment_ms, now_ms):
        log.roll(now_ms)
        partition.start_sync()


async def compact_partition(runtime: Runtime, partition: Partition) -> bool:
    """Compact the log if the topic is compacted and dirty enough; True if it was. One round at a time.

    Every replica compacts its own log: only committed records are compacted, which no follower truncates.
    """
    log, config, now_ms = partition.log, partition.config, runtime.clock.now_ms()
    if not config.cleanup_compact:
        return False
    if roll_is_due(log, config, now_ms):
        log.roll(now_ms)
        partition.start_sync()
    return await compact(runtime, log, config, partition.last_stable_offset, partition.damage.retain)
