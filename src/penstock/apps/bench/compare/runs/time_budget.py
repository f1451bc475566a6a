"""Expected duration of the rows: the remaining time of a comparison, and the time that each row may take."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

TOTAL_S_MAX, QUICK_TOTAL_S_MAX = 80 * 60.0, 240.0
"""Budget of all rows; a row that exceeds its share makes fewer runs."""
ROW_S = {
    "ingest-small": 140, "ingest-kb": 140, "ack-latency": 110, "replay": 120, "end-to-end": 170, "fan-out": 140,
    "work-queue": 160, "python-clients": 200, "client-ingest": 80, "client-end-to-end": 110, "partition-cost": 100,
    "durable-ingest": 150, "first-message": 110, "steady-memory": 610,
    "replicated-ingest": 200, "replicated-latency": 220, "failover": 480, "rolling-restart": 420, "catch-up": 420,
    "replicated-durable-ingest": 220,
}  # fmt: skip
"""Seconds on an otherwise idle machine with two CPUs."""
QUICK_PART = 0.12


class TimeBudget:
    """The budget of one comparison."""

    def __init__(
        self, rows: Sequence[str], *, is_quick: bool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._began_s = clock()
        self._left = {name: ROW_S.get(name, 120) * (QUICK_PART if is_quick else 1.0) for name in rows}
        self._planned_s = sum(self._left.values())
        self._budget_s = max(QUICK_TOTAL_S_MAX if is_quick else TOTAL_S_MAX, self._planned_s)

    def over_at_s(self, row: str) -> float:
        """When the row should be over so that all rows fit into the budget."""
        done_s = self._planned_s - sum(self._left.values()) + self._left[row]
        return self._began_s + self._budget_s * done_s / self._planned_s

    def finish(self, row: str) -> None:
        del self._left[row]

    def left_s(self) -> float:
        """Seconds until the end, extrapolated from the rows so far."""
        left_s = sum(self._left.values())
        done_s = self._planned_s - left_s
        slowdown = (self._clock() - self._began_s) / done_s if done_s else 1.0
        return left_s * slowdown


def show_s(seconds: float) -> str:
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
