"""What every server process does around its loop: choose it, lock its data directory, settle its memory."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Coroutine
from pathlib import Path

from penstock.apps.ready import StartError
from penstock.node.runtime.data_directory import make_private, make_root
from penstock.node.runtime.disk import DirectoryLock

CLUSTER_FILE = "local-cluster.json"
"""Marks the directory of a local cluster, below which its processes have theirs."""


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """The fastest event loop that is installed; None for asyncio's own."""
    try:
        import uvloop
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def lock_directory(root: Path, own_names: tuple[str, ...], owner: str) -> DirectoryLock:
    """Create the data directory and lock it for this process. Raises StartError if another process, an `owner` as
    this one, holds it."""
    try:
        make_root(root)
        lock = DirectoryLock(root)
    except OSError as error:
        raise StartError(f"Cannot use the data directory {root}: {error.strerror}.") from error
    if not lock.acquire():
        raise StartError(
            f"The data directory {root} is in use by another {owner} (pid {lock.holder()}); "
            "stop it or choose another --data-dir."
        )
    make_private(root, own_names)
    return lock


async def done_before(stopping: asyncio.Event, work: Coroutine[None, None, None]) -> bool:
    """Do the work; False if the signal to stop came first, and the work was cancelled."""
    tasks = (asyncio.ensure_future(work), asyncio.ensure_future(stopping.wait()))
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[0].done():
            return False
        tasks[0].result()
        return True
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def settle_memory() -> None:
    """Exempt objects created during start from garbage collection: they live as long as the process."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()
