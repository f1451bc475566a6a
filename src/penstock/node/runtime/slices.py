"""Runs long work on the loop in slices: one slice per loop iteration, round robin over all works.

A work is a generator that yields its cost in units (see SLICE_UNITS) wherever it can be interrupted. Units are
counted, not timed, so that simulated runs are deterministic.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, TypeVar

from penstock.core.errors import BrokerError
from penstock.core.limits import FIRST_SLICE_UNITS, SLICE_UNITS
from penstock.node.runtime.tasks import resolver

logger = logging.getLogger("penstock.slices")

T = TypeVar("T")
Sliced = Generator[int, None, T]
CHUNK = 64
"""Entries between two yields if an entry costs about one unit."""


class Slices:
    """The sliced works of one node that are running."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Sliced[Any], Callable[[Any], None]]] = deque()
        self._is_scheduled = False

    def start(self, steps: Sliced[T], done: Callable[[T | Exception], None]) -> bool:
        """Run the first slice now. True if that completed the work: `done` got the result, or the exception as a
        value."""
        return _advance(steps, done, FIRST_SLICE_UNITS)

    def go(self, steps: Sliced[T], done: Callable[[T | Exception], None]) -> None:
        """Run the first slice now and the rest, if any, in later loop iterations."""
        if not self.start(steps, done):
            self.queue(steps, done)

    def queue(self, steps: Sliced[T], done: Callable[[T | Exception], None]) -> None:
        """Run it in later loop iterations."""
        self._waiting.append((steps, done))
        self._schedule()

    async def run(self, steps: Sliced[T]) -> T:
        """Await the result of a sliced work; does not suspend if the first slice completes it."""
        outcomes: list[T | Exception] = []
        if not self.start(steps, outcomes.append):
            later: asyncio.Future[T | Exception] = asyncio.get_running_loop().create_future()
            self.queue(steps, resolver(later))
            outcomes.append(await later)
        (outcome,) = outcomes
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

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
            self._schedule()  # a defect in one callback must not block the others


def _advance(steps: Sliced[T], done: Callable[[T | Exception], None], units: int) -> bool:
    """Run the work for some units; True if it has ended."""
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
        logger.critical("sliced work crashed: this is a defect in Penstock", exc_info=error)
        outcome = error
    done(outcome)
    return True


class Pace:
    """Yields to other tasks after every slice, for coroutines that do not await anything else."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = SLICE_UNITS

    async def spend(self, units: int) -> None:
        self._left -= units
        if self._left <= 0:
            self._left = SLICE_UNITS
            await asyncio.sleep(0)


def once(work: Callable[[], None]) -> Sliced[None]:
    """Indivisible work that takes milliseconds: it gets a loop iteration of its own."""
    yield SLICE_UNITS
    work()


def run_unsliced(steps: Sliced[T]) -> T:
    """Run a whole sliced work now, where it is known to be short."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def chunks(entries: Sequence[T], size: int = CHUNK) -> Iterable[Sequence[T]]:
    """The entries in chunks of at most `size`; one empty chunk if there are none."""
    if len(entries) <= size:
        return (entries,)  # by far the most frequent case, and a generator would cost more than the chunk
    return (entries[start : start + size] for start in range(0, len(entries), size))
