"""Carrying out a log's sync plan: data first, then the names. Never retries: a flush that failed is not a flush."""

from __future__ import annotations

from functools import partial
from time import perf_counter

from penstock.core.log.log import Log, SyncPlan
from penstock.core.ports import Files
from penstock.node.runtime import Runtime
from penstock.node.workers import run_blocking


def carry_out(files: Files, plan: SyncPlan) -> float:
    """Blocks until all of the plan is on stable storage; returns the seconds it took. Runs in a worker thread."""
    started_s = perf_counter()
    for file in plan.files:
        file.sync()
    for directory in plan.directories:
        files.sync_dir(directory)
    return perf_counter() - started_s


async def sync_now(runtime: Runtime, log: Log) -> None:
    """Flush what is dirty and publish it."""
    plan = log.take_dirty()
    if plan.files or plan.directories:
        took_s = await run_blocking(runtime.workers, partial(carry_out, runtime.files, plan))
        runtime.meters.fsyncs.observe(took_s)
    log.publish(plan.mark)
