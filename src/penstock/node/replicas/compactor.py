"""One compaction round of one log. The rewrite runs in a worker thread."""

from __future__ import annotations

import logging
from functools import partial

from penstock.core.log.compaction import CompactionConfig, choose, install
from penstock.core.log.log import Log
from penstock.core.log.rewrite import Report, rewrite
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.workers import run_blocking

logger = logging.getLogger("penstock.compaction")


async def compact(
    runtime: Runtime, log: Log, config: CompactionConfig, limit_offset: int, report: Report
) -> bool:
    """Compact the log if it is dirty enough; True if it was compacted."""
    plan = choose(log, config, runtime.clock.now_ms(), limit_offset)
    if plan is None:
        return False
    reports: list[str] = []
    result = await run_blocking(runtime.workers, partial(rewrite, runtime.files, plan, reports.append))
    for one in reports:
        report(one)
    if not install(log, plan, result):
        return False
    logger.info(
        "log compacted",
        extra={
            "directory": log.directory,
            "records_dropped": result.records_dropped,
            "bytes_before": result.bytes_before,
            "bytes_after": result.bytes_after,
        },
    )
    return True
