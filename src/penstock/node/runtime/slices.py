"""Long work on the loop, cut in slices: one slice of one work per turn of the loop, all works in turn.

A work is a generator that yields what it has cost in units (see SLICE_UNITS) wherever others may come in between.
Units are counted, not timed, so that a simulated node behaves the same in every run.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, TypeVar

from penstock.core.errors import BrokerError
from penstock.core.limits import FIRST_SLICE_UNITS, SLICE_UNITS

logger = logging.getLogger("penstock.slices")

T = TypeVar("T")
Sliced = Generator[int, None, T]
CHUNK = 64
"""Entries between two yields where an entry costs about one unit."""


class Slices:
    """The works of one node that are under way."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Sliced[Any], Callable[[Any], None]]] = deque()
        self._is_scheduled = False

    def start(self, steps: Sliced[T], done: Callable[[T | Exception], None]) -> bool:
        """Do the first slice now. True if that was all: `done` got the result, or the exception as a value."""
        return _advance(steps, done, FIRST_SLICE_UNITS)

    def go(self, steps: Sliced[T], done: Callable[[T | Exception], None]) -> None:
        """Do the first slice now and the rest, if there is any, in the coming turns of the loop."""
        if not self.start(steps, done):
            self.queue(steps, done)

    def queue(self, steps: Sliced[T], done: Callable[[T | Exception], None]) -> None:
        """Do it in the coming turns of the loop."""
        self._waiting.append((steps, done))
        self._schedule()

    async def run(self, steps: Sliced[T]) -> T:
        """The result of a sliced work, for coroutines: they wait for their slices as everybody does."""
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()

        def settle(outcome: T | Exception) -> None:
            if future.done():
                return
            if isinstance(outcome, Exception):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)

        self.go(steps, settle)
        return await future

    def _schedule(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._is_scheduled = False
        steps, done = self._waiting.popleft()
        try:
            if not _advance(steps, done, SLICE_UNITS):
                self._waiting.append((steps, done))
        finally:
            self._schedule()  # a defect in one callback must not keep the others waiting


def _advance(steps: Sliced[T], done: Callable[[T | Exception], None], units: int) -> bool:
    """Spend some units; True when the work has ended."""
    outcome: T | Exception
    try:
        while units > 0:
            units -= next(steps)
        return False
    except StopIteration as end:
        outcome = end.value
    except BrokerError as error:
        outcome = error
    except Exception as error:
        logger.critical("a sliced work crashed: this is a defect in Penstock", exc_info=error)
        outcome = error
    done(outcome)
    return True


class Pace:
    """For coroutines that do not wait for anything: gives way to others after every slice."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = SLICE_UNITS

    async def spend(self, units: int) -> None:
        self._left -= units
        if self._left <= 0:
            self._left = SLICE_UNITS
            await asyncio.sleep(0)


def once(work: Callable[[], None]) -> Sliced[None]:
    """A work that cannot be cut and takes milliseconds: it gets a turn of the loop for itself."""
    yield SLICE_UNITS
    work()


def run_unsliced(steps: Sliced[T]) -> T:
    """All of a sliced work at once, where it is known to be short."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def chunks(entries: Sequence[T], size: int = CHUNK) -> Iterator[Sequence[T]]:
    """The entries in runs of at most `size`; one empty run if there are none."""
    if len(entries) <= size:
        yield entries
        return
    for start in range(0, len(entries), size):
        yield entries[start : start + size]
