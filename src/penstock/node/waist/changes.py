"""Several changes in one request: each decided by itself, all committed together. Never knows what they are about."""

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
"""One change: what must happen for it on this state, or the BrokerError that says why it cannot."""


class Changed(NamedTuple):
    """What became of the steps, and the state that they lead to."""

    errors: list[BrokerError | None]
    after: Catalog


class Changes:
    """Commits the changes of one family of verbs."""

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
        """Decide the steps in turn, each on what those before it leave, and commit together what they allow.

        An error in place of a step is that step's outcome: it was refused before.
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
        """The outcome of the work, or TimedOut. Work that was begun is never torn off: it ends by itself, unheard."""
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
    """The time that a client gives; None is all the time in the world."""

    def __init__(self, timeout_ms: int | None) -> None:
        self._timeout_ms = timeout_ms
        self._clock = asyncio.get_running_loop().time
        self._until_s = None if timeout_ms is None else self._clock() + timeout_ms / 1000

    def left_s(self) -> float | None:
        return None if self._until_s is None else max(0.0, self._until_s - self._clock())

    def check(self) -> None:
        """Refuse to begin when the time is over."""
        if self.left_s() == 0:
            raise self.missed()

    def missed(self) -> TimedOut:
        return TimedOut(f"not done within the {self._timeout_ms} ms that the request gave")


class _Trial:
    """The steps of one request, tried one after the other on a draft."""

    def __init__(self, steps: Sequence[Step | BrokerError], catalog: Catalog) -> None:
        self._steps = steps
        self.errors: list[BrokerError | None] = []
        self.after = catalog

    def run(self, catalog: Catalog) -> Sliced[list[Event]]:
        """May be run again, on a later state: only the last run counts."""
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
    """Those that a request names more than once."""
    return {name for name, count in Counter(names).items() if count > 1}


def check_named_once(name: Hashable, twice: set[Hashable]) -> None:
    if name in twice:
        raise InvalidRequest(
            "this is named more than once in the request, so what is wanted of it cannot be told"
        )
