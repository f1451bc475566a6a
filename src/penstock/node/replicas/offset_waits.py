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


class OffsetWaits:
    """Who waits for one offset of one partition to be reached."""

    __slots__ = ("_expires_s", "_goal", "_loop", "_name", "_timer", "pending")

    def __init__(self, name: str, goal: str) -> None:
        self._name = name
        self._goal = goal
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._expires_s = inf
        """When the timer fires."""
        self.pending: deque[tuple[int, float, Settled]] = deque()
        """(offset, deadline, callback), in the order in which they came: mostly that of their offsets."""

    def add(self, offset: int, settled: Settled, timeout_ms: int) -> None:
        """Call back once `offset` is reached, or with TimedOut after `timeout_ms`; 0 or less sets no deadline."""
        deadline_s = inf
        if timeout_ms > 0:
            deadline_s = self._loop.time() + timeout_ms / 1000
            if deadline_s < self._expires_s:
                self._arm(deadline_s)
        self.pending.append((offset, deadline_s, settled))

    def settle(self, reached_offset: int) -> None:
        """Everything before an offset counts now."""
        pending = self.pending
        while pending and pending[0][0] <= reached_offset:
            pending.popleft()[2](None)

    def fail(self, error: BrokerError, after_offset: int = -1) -> None:
        """Tell those who wait for more than `after_offset` that it will not come."""
        pending, self.pending = self.pending, deque()
        self.pending.extend(one for one in pending if one[0] <= after_offset)
        for offset, _, settled in pending:
            if offset > after_offset:
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
        now_s = self._loop.time()
        self._timer, self._expires_s = None, inf
        pending, self.pending = self.pending, deque()
        self.pending.extend(one for one in pending if one[1] > now_s)
        next_s = min((one[1] for one in self.pending), default=inf)
        if next_s < inf:
            self._arm(max(next_s, now_s + EXPIRY_STEP_S))
        for offset, deadline_s, settled in pending:
            if deadline_s <= now_s:
                settled(
                    TimedOut(
                        f"{self._name}: timed out before the records up to offset {offset} were {self._goal};"
                        " they may still be"
                    )
                )
