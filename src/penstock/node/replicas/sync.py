"""Runs a log's sync plan: data first, then directory entries. Never retries a failed sync: the data may be lost.

Failing to *open* a file or directory is different: nothing is lost, so the plan waits until a descriptor is free.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from time import perf_counter, sleep

from penstock.core.errors import OutOfDescriptors
from penstock.core.log.log import Log, SyncPlan
from penstock.core.ports import Files
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.workers import run_blocking

logger = logging.getLogger("penstock.sync")

OPEN_RETRY_S = 0.1
"""Delay between attempts to open a file for its sync."""


def run_sync(files: Files, plan: SyncPlan, pause: Callable[[float], None] = sleep) -> float:
    """Blocks until the whole plan is on stable storage; returns the seconds it took. Runs in a worker thread."""
    started_s = perf_counter()
    for file in plan.files:
        _sync_when_open(file.sync, pause)
    for directory in plan.directories:
        _sync_when_open(partial(files.sync_dir, directory), pause)
    return perf_counter() - started_s


def _sync_when_open(sync: Callable[[], None], pause: Callable[[float], None]) -> None:
    """Sync; waits while no descriptor is free."""
    is_logged = False
    while True:
        try:
            sync()
        except OutOfDescriptors as error:
            if not is_logged:
                logger.warning(
                    "sync delayed until a file descriptor is free; acknowledgements wait for it: %s", error
                )
                is_logged = True
            pause(OPEN_RETRY_S)
        else:
            return


async def sync_log(runtime: Runtime, log: Log) -> None:
    """Sync what is dirty. The caller advances the high watermark."""
    plan = log.take_dirty()
    if plan.files or plan.directories:
        took_s = await run_blocking(runtime.workers, partial(run_sync, runtime.files, plan))
        runtime.meters.fsyncs.observe(took_s)
    log.mark_synced(plan)
