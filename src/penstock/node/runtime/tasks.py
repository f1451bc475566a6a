"""Tasks that are not awaited by anyone: kept alive, and reported if they crash. Nobody below catches a bug."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

logger = logging.getLogger("penstock.tasks")

T = TypeVar("T")


def resolver(future: asyncio.Future[T]) -> Callable[[T], None]:
    """A callback that gives the future its result, unless whoever waited for it was cancelled meanwhile."""

    def settled(result: T) -> None:
        if not future.done():
            future.set_result(result)

    return settled


class Tasks:
    """A set of running tasks that belong together."""

    def __init__(self) -> None:
        self._running: dict[asyncio.Task[Any], None] = {}

    def spawn(
        self, work: Coroutine[Any, Any, Any], crashed: Callable[[BaseException], None] | None = None
    ) -> None:
        """Run it. A crash is logged with its trace, and whoever depends on the work is told."""
        task = asyncio.get_running_loop().create_task(work)
        self._running[task] = None
        task.add_done_callback(lambda done: self._ended(done, crashed))

    async def run_to_completion(self, work: Coroutine[Any, Any, T]) -> T:
        """The outcome of work that goes on to its end even if whoever waits for it is cancelled.

        Then nobody hears of its outcome: an error that it raises is an answer, not a defect.
        """
        task = asyncio.get_running_loop().create_task(work)
        self._running[task] = None
        task.add_done_callback(self._ended_unawaited)
        return await asyncio.shield(task)

    def _ended_unawaited(self, task: asyncio.Task[Any]) -> None:
        self._running.pop(task, None)
        if not task.cancelled():
            task.exception()  # marks it as seen: the loop would report it otherwise

    def _ended(self, task: asyncio.Task[Any], crashed: Callable[[BaseException], None] | None) -> None:
        self._running.pop(task, None)
        if task.cancelled():
            return
        error = task.exception()
        if error is not None:
            logger.critical("a task crashed: this is a defect in Penstock", exc_info=error)
            if crashed is not None:
                crashed(error)

    def cancel(self) -> None:
        """Cancel what still runs, without waiting for it to end."""
        for task in list(self._running):
            task.cancel()

    async def stop(self) -> None:
        """Cancel what still runs and wait until it has ended."""
        running = list(self._running)
        self.cancel()
        await asyncio.gather(*running, return_exceptions=True)
