"""Several catalog changes in one request: decided one by one, committed together."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine, Hashable, Iterable, Sequence
from typing import Any, NamedTuple, TypeVar

from penstock.core.errors import BrokerError, InvalidRequest, TimedOut
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.node.broker import Broker
from penstock.node.runtime.slices import Sliced
from penstock.node.runtime.tasks import Tasks

T = TypeVar("T")

Step = Callable[[Catalog], Sequence[Event]]
"""One change: returns its events for the given state, or raises BrokerError."""


class Changed(NamedTuple):
    """The errors of the steps, and the resulting state."""

    errors: list[BrokerError | None]
    after: Catalog


class Changes:
    """Commits the catalog changes of one family of verbs."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._tasks = Tasks()

    async def commit(
        self,
        steps: Sequence[Step | BrokerError],
        *,
        timeout_ms: int | None = None,
        validate_only: bool = False,
    ) -> Changed:
        """Decide the steps in order, each on the state after the previous ones, and commit the successful ones
        together.

        An error in place of a step is that step's outcome: it was rejected before.
        """
        trial = _Trial(steps, self._broker.catalog)
        deadline = Deadline(timeout_ms)

        def decide(catalog: Catalog) -> Sliced[Sequence[Event]]:
            deadline.check()
            events = yield from trial.run(catalog)
            return [] if validate_only else events

        failure = await self.within(deadline, self._broker.change(decide))
        if isinstance(failure, BrokerError):
            return Changed([error or failure for error in trial.errors or [None] * len(steps)], trial.after)
        return Changed(trial.errors, trial.after)

    async def within(self, deadline: Deadline, work: Coroutine[Any, Any, T]) -> T | BrokerError:
        """The result of the work, or TimedOut. After a timeout the work runs to completion and its result is
        dropped."""
        outcome: asyncio.Future[T | BrokerError] = asyncio.get_running_loop().create_future()

        async def run() -> None:
            result: T | BrokerError
            try:
                result = await work
            except BrokerError as error:
                result = error
            if not outcome.done():
                outcome.set_result(result)

        def crashed(error: BaseException) -> None:
            if not outcome.done():
                outcome.set_exception(error)

        self._tasks.spawn(run(), crashed)
        done, _ = await asyncio.wait({outcome}, timeout=deadline.left_s())
        if not done:
            outcome.cancel()
            return deadline.missed()
        return outcome.result()


class Deadline:
    """The time limit of a request; None means no limit."""

    def __init__(self, timeout_ms: int | None) -> None:
        self._timeout_ms = timeout_ms
        self._clock = asyncio.get_running_loop().time
        self._until_s = None if timeout_ms is None else self._clock() + timeout_ms / 1000

    def left_s(self) -> float | None:
        return None if self._until_s is None else max(0.0, self._until_s - self._clock())

    def check(self) -> None:
        """Raise TimedOut if the deadline has passed."""
        if self.left_s() == 0:
            raise self.missed()

    def missed(self) -> TimedOut:
        return TimedOut(f"not completed within the request timeout of {self._timeout_ms} ms")


class _Trial:
    """The steps of one request, tried in order on a draft of the catalog."""

    def __init__(self, steps: Sequence[Step | BrokerError], catalog: Catalog) -> None:
        self._steps = steps
        self.errors: list[BrokerError | None] = []
        self.after = catalog

    def run(self, catalog: Catalog) -> Sliced[list[Event]]:
        """May run again on a later state: only the last run counts."""
        self.after = draft = catalog.draft()
        self.errors = []
        events: list[Event] = []
        for step in self._steps:
            yield 1
            if isinstance(step, BrokerError):
                self.errors.append(step)
                continue
            try:
                decided = step(draft)
            except BrokerError as error:
                self.errors.append(error)
                continue
            for event in decided:
                draft.apply(event)
            events += decided
            self.errors.append(None)
        return events


def repeated(names: Iterable[Hashable]) -> set[Hashable]:
    """The names that occur more than once."""
    return {name for name, count in Counter(names).items() if count > 1}


def check_named_once(name: Hashable, twice: set[Hashable]) -> None:
    if name in twice:
        raise InvalidRequest("the request names this more than once, so it is ambiguous")
