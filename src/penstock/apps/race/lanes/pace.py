"""A lap in pieces of equal length: the quickest of them counts. Never knows what is counted.

Whatever else happens on a machine only ever slows a piece, and seldom all of them.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from penstock.apps.measuring.figures import percentile

PIECES = 5


class Pace:
    """Messages a second of the quickest piece so far; its clock runs from when it is made."""

    def __init__(self, count: int) -> None:
        self._piece = max(1, count // PIECES)
        self._before = 0
        self._mark = self._piece
        self._since_ns = time.perf_counter_ns()
        self.best_rate = 0.0

    def reached(self, done: int) -> None:
        """So many messages are through."""
        if done < self._mark:
            return
        now_ns = time.perf_counter_ns()
        rate = (done - self._before) * 1e9 / (now_ns - self._since_ns)
        self.best_rate = max(self.best_rate, rate)
        self._before, self._mark, self._since_ns = done, done + self._piece, now_ns


def best_percentile(times: Sequence[float], share: float) -> float:
    """The percentile within the piece where it is lowest; `times` in the order in which they were taken."""
    length = max(1, len(times) // PIECES)
    starts = range(0, len(times) - length + 1, length)
    return min(percentile(sorted(times[start : start + length]), share) for start in starts)
