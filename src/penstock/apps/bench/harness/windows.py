"""Splits a run into windows of equal length and reports the best one.

Other work on the machine can only slow a window down, and it rarely slows down all of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from penstock.apps.bench.harness.samples import percentile

WINDOWS = 5


class WindowRate:
    """Messages per second in the fastest window so far. The clock starts when the object is created."""

    def __init__(self, count: int) -> None:
        self._window = max(1, count // WINDOWS)
        self._before = 0
        self._mark = self._window
        self._since_ns = time.perf_counter_ns()
        self.best = 0.0

    def reached(self, done: int) -> None:
        """Record that `done` messages have been handled in total."""
        if done < self._mark:
            return
        now_ns = time.perf_counter_ns()
        self.best = max(self.best, (done - self._before) * 1e9 / (now_ns - self._since_ns))
        self._before, self._mark, self._since_ns = done, done + self._window, now_ns


def best_percentile(times: Sequence[float], share: float) -> float:
    """The percentile of the window in which it is lowest; `times` are in the order in which they were taken."""
    length = max(1, len(times) // WINDOWS)
    starts = range(0, len(times) - length + 1, length)
    return min(percentile(sorted(times[start : start + length]), share) for start in starts)
