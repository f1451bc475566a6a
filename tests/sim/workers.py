"""Blocking work off the loop, on virtual time. Never runs at once: a crash may fall before or after it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from sim.hosts import PowerLost
from sim.loop import SimLoop

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class WorkerKnobs:
    """How long workers take."""

    delay_s_min: float = 0.000_05
    delay_s_max: float = 0.002
    slow_chance: float = 0.02
    """How often a piece of work takes up to `slow_s_max`: a disk that hiccups."""
    slow_s_max: float = 0.5


class SimWorkers:
    """The node's workers: `submit` returns at once, `work` runs later and `done` later still.
    Pieces of work overtake each other freely, as threads do."""

    def __init__(self, loop: SimLoop, name: str, knobs: WorkerKnobs | None = None) -> None:
        self._loop = loop
        self.knobs = knobs or WorkerKnobs()
        self._chance = loop.random_for(f"workers/{name}")

    def submit(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        """Run `work` at some time, then hand its result, or what it raised, to `done` on the same host."""
        self._loop.call_later(self._delay_s(), self._perform, work, done)

    def _perform(self, work: Callable[[], T], done: Callable[[T | BaseException], None]) -> None:
        result: T | BaseException
        try:
            result = work()
        except PowerLost:
            return
        except BaseException as error:  # noqa: BLE001
            result = error
        self._loop.call_later(self._delay_s(), done, result)

    def _delay_s(self) -> float:
        knobs = self.knobs
        slow = self._chance.random() < knobs.slow_chance
        return self._chance.uniform(knobs.delay_s_min, knobs.slow_s_max if slow else knobs.delay_s_max)
