"""Runs a log's sync plan: data first, then the names. Never retries a sync that failed: it is not a sync.

Not being able to *open* a file or directory is something else: nothing was synced and nothing is lost, so the plan
waits until there is a descriptor again.
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
"""How long a sync waits for a descriptor before it tries again."""


def run_sync(files: Files, plan: SyncPlan, pause: Callable[[float], None] = sleep) -> float:
    """Blocks until all of the plan is on stable storage; returns the seconds it took. Runs in a worker thread."""
    started_s = perf_counter()
    for file in plan.files:
        _sync_when_open(file.sync, pause)
    for directory in plan.directories:
        _sync_when_open(partial(files.sync_dir, directory), pause)
    return perf_counter() - started_s


def _sync_when_open(sync: Callable[[], None], pause: Callable[[float], None]) -> None:
    """Sync; wait for a descriptor as long as there is none."""
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
    """Sync what is dirty. What readers may see is up to the caller."""
    plan = log.take_dirty()
    if plan.files or plan.directories:
        took_s = await run_blocking(runtime.workers, partial(run_sync, runtime.files, plan))
        runtime.meters.fsyncs.observe(took_s)
    log.mark_synced(plan)
