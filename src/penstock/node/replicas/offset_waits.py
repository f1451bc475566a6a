"""Callbacks that wait for an offset to be reached: told so, told of a failure, or timed out. Never moves an offset.

One timer serves all of them: it is armed for the earliest deadline that it has seen and left alone when a callback is
settled before, so that a request which is answered in time costs no timer of its own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from math import inf

from penstock.core.errors import BrokerError, TimedOut

Settled = Callable[[BrokerError | None], None]
"""Called once: None when the records are as safe as was asked for, else what went wrong."""

EXPIRY_STEP_S = 0.01
"""Time-outs are looked for at most this often, so that many different deadlines cost little. They may be late by it."""

_NOBODY: deque[tuple[int, float, Settled]] = deque(maxlen=0)
"""What everybody has who never waited: a deque takes 600 bytes, and most of a node's partitions are idle."""


class OffsetWaits:
    """Who waits for one offset of one partition to be reached."""

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
        """(offset, deadline, callback), in the order in which they came: mostly that of their offsets."""

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
        """Everything before an offset counts now."""
        pending = self.pending
        while pending and pending[0][0] <= reached_offset:
            pending.popleft()[2](None)

    def fail(self, error: BrokerError, after_offset: int = -1) -> None:
        """Tell those who wait for more than `after_offset` that it will not come."""
        for _, _, settled in self._take([one[0] > after_offset for one in self.pending]):
            settled(error)

    def close(self) -> None:
        """No more timers."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer, self._expires_s = None, inf

    def _arm(self, deadline_s: float) -> None:
        self.close()
        self._expires_s = deadline_s
        self._timer = self._loop.call_at(deadline_s, self._expire)

    def _expire(self) -> None:
        """Time out those whose deadline has passed and arm the timer for the rest."""
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
        """Remove some and return them. The deque stays the same: `settle` may be at work on it further up."""
        pending = list(self.pending)
        self.pending.clear()
        self.pending.extend(one for one, taken in zip(pending, is_taken, strict=True) if not taken)
        return [one for one, taken in zip(pending, is_taken, strict=True) if taken]
