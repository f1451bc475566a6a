"""Background tasks: holds references to them and logs crashes. Code below does not catch defects."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

logger = logging.getLogger("penstock.tasks")

T = TypeVar("T")


def resolver(future: asyncio.Future[T]) -> Callable[[T], None]:
    """A callback that sets the future's result, unless the waiter was cancelled."""

    def settled(result: T) -> None:
        if not future.done():
            future.set_result(result)

    return settled


class Tasks:
    """A group of running tasks."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[Any], None] = {}

    def spawn(
        self, work: Coroutine[Any, Any, T], crashed: Callable[[BaseException], None] | None = None
    ) -> asyncio.Task[T]:
        """Start a task. A crash is logged with its traceback and passed to `crashed`."""
        task = asyncio.get_running_loop().create_task(work)
        self._running[task] = None
        task.add_done_callback(lambda done: self._ended(done, crashed))
        return task

    async def run_to_completion(self, work: Coroutine[Any, Any, T]) -> T:
        """Await work that runs to completion even if the caller is cancelled.

        In that case its outcome is dropped: an error that it raises is a result, not a defect.
        """
        task = asyncio.get_running_loop().create_task(work)
        self._running[task] = None
        task.add_done_callback(self._ended_unawaited)
        return await asyncio.shield(task)

    def _ended_unawaited(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task, None)
        if not task.cancelled():
            task.exception()  # marks it as retrieved: asyncio would log it otherwise

    def _ended(self, task: asyncio.Task[Any], crashed: Callable[[BaseException], None] | None) -> None:
        self._running.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            logger.critical("background task crashed: this is a defect in Penstock", exc_info=error)
            if crashed is not None:
                crashed(error)

    def cancel(self) -> None:
        """Cancel all tasks without waiting for them."""
        for task in list(self._running):
            task.cancel()

    async def finish(self) -> None:
        """Wait until all tasks have ended by themselves."""
        await asyncio.gather(*self._running, return_exceptions=True)

    async def stop(self) -> None:
        """Cancel all tasks and wait until they have ended."""
        running = list(self._running)
        self.cancel()
        await asyncio.gather(*running, return_exceptions=True)
