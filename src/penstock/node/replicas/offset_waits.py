"""Callbacks that wait for an offset: called when it is reached, on failure, or on timeout.

One timer serves all of them: it is set for the earliest deadline and not changed when a callback is settled earlier,
so that a request answered in time costs no timer of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from math import inf

from penstock.core.errors import BrokerError, TimedOut

Settled = Callable[[BrokerError | None], None]
"""Called once: with None when the records are as durable as requested, or with the error."""

EXPIRY_STEP_S = 0.01
"""Minimum interval between checks for timeouts, so that many deadlines cost little. Timeouts may be late by it."""

_NOBODY: deque[tuple[int, float, Settled]] = deque(maxlen=0)
"""Shared by all instances without waits: a deque takes 600 bytes, and most partitions of a node are idle."""


class OffsetWaits:
    """The callbacks that wait for offsets of one partition."""

    __slots__ = ("_expires_s", "_goal", "_loop", "_name", "_now_s", "_timer", "pending")

    def __init__(self, name: str, goal: str) -> None:
        self._name = name
        self._goal = goal
        self._loop = asyncio.get_running_loop()
        self._now_s = self._loop.time
        self._timer: asyncio.TimerHandle | None = None
        self._expires_s = inf
        """When the timer fires."""
        self.pending: deque[tuple[int, float, Settled]] = _NOBODY
        """(offset, deadline, callback) in order of arrival, which is mostly offset order."""

    def add(self, offset: int, settled: Settled, timeout_ms: int) -> None:
        """Call back once `offset` is reached, or with TimedOut after `timeout_ms`; 0 or less sets no deadline."""
        deadline_s = inf
        if timeout_ms > 0:
            deadline_s = self._now_s() + timeout_ms / 1000
            if deadline_s < self._expires_s:
                self._arm(deadline_s)
        if self.pending is _NOBODY:
            self.pending = deque()
        self.pending.append((offset, deadline_s, settled))

    def settle(self, reached_offset: int) -> None:
        """Call the callbacks for offsets up to `reached_offset`."""
        pending = self.pending
        while pending and pending[0][0] <= reached_offset:
            pending.popleft()[2](None)

    def fail(self, error: BrokerError, after_offset: int = -1) -> None:
        """Call the callbacks for offsets after `after_offset` with the error."""
        for _, _, settled in self._take([one[0] > after_offset for one in self.pending]):
            settled(error)

    def close(self) -> None:
        """Cancel the timer."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._expires_s = None, inf

    def _arm(self, deadline_s: float) -> None:
        self.close()
        self._expires_s = deadline_s
        self._timer = self._loop.call_at(deadline_s, self._expire)

    def _expire(self) -> None:
        """Time out the callbacks whose deadline has passed, and set the timer for the rest."""
        now_s = self._now_s()
        self._timer, self._expires_s = None, inf
        late = self._take([one[1] <= now_s for one in self.pending])
        next_s = min((one[1] for one in self.pending), default=inf)
        if next_s < inf:
            self._arm(max(next_s, now_s + EXPIRY_STEP_S))
        for offset, _, settled in late:
            settled(
                TimedOut(
                    f"{self._name}: timed out before the records up to offset {offset} were {self._goal};"
                    " they may still be"
                )
            )

    def _take(self, is_taken: list[bool]) -> list[tuple[int, float, Settled]]:
        """Remove the selected entries and return them. Modifies the deque in place: `settle` may be iterating over it
        further up the stack."""
        pending = list(self.pending)
        self.pending.clear()
        self.pending.extend(one for one, taken in zip(pending, is_taken, strict=True) if not taken)
        return [one for one, taken in zip(pending, is_taken, strict=True) if taken]
