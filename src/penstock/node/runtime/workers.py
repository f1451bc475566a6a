"""Worker threads for blocking and CPU-heavy work.

Work must not touch broker state; its outcome is passed back to the loop.
"""

from __future__ import annotations

import asyncio
import traceback
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


class _Worker:
    """One thread with its own queue, so that a job wakes only one thread."""

    __slots__ = ("jobs", "load", "thread")

    def __init__(self, number: int, run: Callable[[_Worker], None]) -> None:
        self.jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self.load = 0
        """Jobs submitted and not yet returned. Only the loop's thread changes it."""
        self.thread = Thread(target=run, args=(self,), name=f"penstock-worker-{number}", daemon=True)
        self.thread.start()


class ThreadWorkers:
    """A few threads; outcomes are passed to the loop in batches, one wake-up for many."""

    def __init__(self, loop: asyncio.AbstractEventLoop, threads: int) -> None:
        self._loop = loop
        self._finished: deque[tuple[_Worker, Done, Any]] = deque()
        self._is_woken = False
        self._workers = [_Worker(number, self._run) for number in range(threads)]

    def submit(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Submit to the first of the least busy threads: under light load always the same one."""
        worker = min(self._workers, key=_load_of)
        worker.load += 1
        worker.jobs.put((work, done))

    def _run(self, worker: _Worker) -> None:
        while (job := worker.jobs.get()) is not None:
            work, done = job
            outcome: Any
            try:
                outcome = work()
            except BaseException as error:  # noqa: BLE001 - passed on to the caller as a value
                forget_variables(error)
                outcome = error
            self._finished.append((worker, done, outcome))
            if not self._is_woken:
                self._is_woken = True
                self._loop.call_soon_threadsafe(self._drain)
            del job, work, done, outcome  # an idle thread must not reference its last job

    def _drain(self) -> None:
        self._is_woken = False
        while self._finished:
            worker, done, outcome = self._finished.popleft()
            worker.load -= 1
            try:
                done(outcome)
            except Exception as error:  # noqa: BLE001 - a defect in one callback must not block the others
                self._loop.call_exception_handler(
                    {"message": "callback of a worker failed", "exception": error}
                )

    def close(self) -> None:
        """Finish the queued work and stop the threads."""
        for worker in self._workers:
            worker.jobs.put(None)
        for worker in self._workers:
            worker.thread.join()


def forget_variables(error: BaseException | None) -> None:
    """Clear the frames of an error and its causes, so that it does not keep their local variables in memory."""
    while error is not None:
        traceback.clear_frames(error.__traceback__)
        error = error.__context__


def _load_of(worker: _Worker) -> int:
    return worker.load


async def run_blocking(workers: Workers, work: Callable[[], T]) -> T:
    """Run blocking work in a worker and await its result."""
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
