"""Threads for work that blocks on the disk.

Never touches broker state: work runs apart, its outcome comes back to the loop.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Done = Callable[[Any], None]
_Job = tuple[Callable[[], Any], Done]


class Workers(Protocol):
    """Runs blocking work off the loop. `done` gets the result, or the exception as a value."""

    def submit(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None: ...


class ThreadWorkers:
    """A few threads on one queue; outcomes are handed to the loop in bunches, one wake-up for many."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int) -> None:
        self._loop = loop
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._finished: deque[tuple[Done, Any]] = deque()
        self._is_woken = False
        self._threads = [
            Thread(target=self._run, name=f"penstock-worker-{n}", daemon=True) for n in range(threads)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        self._jobs.put((work, done))

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            work, done = job
            outcome: Any
            try:
                outcome = work()
            except BaseException as error:  # noqa: BLE001 - handed over whole to whoever asked for the work
                outcome = error
            self._finished.append((done, outcome))
            if not self._is_woken:
                self._is_woken = True
                self._loop.call_soon_threadsafe(self._drain)

    def _drain(self) -> None:
        self._is_woken = False
        while self._finished:
            done, outcome = self._finished.popleft()
            try:
                done(outcome)
            except Exception as error:  # noqa: BLE001 - a defect in one callback must not keep the others waiting
                self._loop.call_exception_handler(
                    {"message": "a worker's callback failed", "exception": error}
                )

    def close(self) -> None:
        """Let queued work finish and end the threads."""
        for _ in self._threads:
            self._jobs.put(None)
        for thread in self._threads:
            thread.join()


async def run_blocking(workers: Workers, work: Callable[[], T]) -> T:
    """Await a piece of blocking work."""
    future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

    def settle(outcome: T | BaseException) -> None:
        if future.done():
            return
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)

    workers.submit(work, settle)
    return await future
