"""The calls to one peer that are not settled yet: how many, how many bytes, until when. Sends nothing.

Every call is settled once: with its response, or with the error that says whether it was sent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from math import inf
from time import perf_counter
from typing import Any

from penstock.core.errors import BrokerError, Throttled
from penstock.core.limits import LINK_BYTES_IN_FLIGHT_MAX, LINK_REQUESTS_IN_FLIGHT_MAX
from penstock.node.runtime.meters import LinkMeter

TIMER_S_MIN = 0.02
"""Between two looks at all deadlines: thousands of calls may be pending."""


class PendingCall:
    """One request, and who waits for its response."""

    __slots__ = (
        "answered",
        "api_key",
        "deadline_s",
        "is_sent",
        "is_settled",
        "request",
        "size_bytes",
        "started_s",
        "timeout_ms",
        "version",
    )

    def __init__(self, request: Any, answered: Callable[[Any], None], timeout_ms: int, now_s: float) -> None:
        self.request = request
        self.answered = answered
        self.timeout_ms = timeout_ms
        self.deadline_s = now_s + timeout_ms / 1000
        self.started_s = perf_counter()
        self.size_bytes = 0
        self.is_sent = False
        self.is_settled = False
        self.api_key = self.version = -1


class PendingCalls:
    """The pending calls of one link. `expire` gets each call whose deadline has passed."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, meter: LinkMeter, expire: Callable[[PendingCall], None]
    ) -> None:
        self._loop = loop
        self._meter = meter
        self._expire = expire
        self._calls: dict[PendingCall, None] = {}
        self._bytes = 0
        self._due_s = inf
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._calls)

    def all(self) -> Iterable[PendingCall]:
        return list(self._calls)

    def add(self, call: PendingCall) -> None:
        """Raises Throttled over the limit."""
        if len(self._calls) >= LINK_REQUESTS_IN_FLIGHT_MAX:
            raise Throttled(
                f"{LINK_REQUESTS_IN_FLIGHT_MAX} calls to this broker are in flight, nothing was sent: try again"
            )
        self._calls[call] = None
        self._meter.calls += 1
        if call.deadline_s < self._due_s:
            self._set_timer(call.deadline_s)

    def count_bytes(self, call: PendingCall, size_bytes: int) -> None:
        """Raises Throttled over the limit. A single request may always be sent."""
        if self._bytes and self._bytes + size_bytes > LINK_BYTES_IN_FLIGHT_MAX:
            raise Throttled(
                f"requests of {self._bytes} bytes to this broker are in flight, nothing was sent: try again"
            )
        self._bytes += size_bytes
        call.size_bytes = size_bytes

    def settle(self, call: PendingCall, outcome: Any) -> None:
        """Hand over the response or the error, once."""
        assert not call.is_settled, "settled twice"
        call.is_settled = True
        self._calls.pop(call, None)
        self._bytes -= call.size_bytes
        if isinstance(outcome, BrokerError):
            self._meter.errors[outcome.code] += 1
        else:
            self._meter.round_trips.observe(perf_counter() - call.started_s)
        answered, call.request = call.answered, None
        answered(outcome)

    def close(self) -> None:
        """No call is left; cancel the timer."""
        assert not self._calls, "calls are pending"
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    # -- deadlines: one timer for the earliest, because a timer per call would cost more than the call

    def _set_timer(self, due_s: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._due_s = due_s
        self._timer = self._loop.call_at(due_s, self._fire)

    def _fire(self) -> None:
        self._timer, self._due_s = None, inf
        now_s = self._loop.time()
        for call in [one for one in self._calls if one.deadline_s <= now_s]:
            if not call.is_settled:
                self._expire(call)
        if self._calls and self._timer is None:
            earliest_s = min(call.deadline_s for call in self._calls)
            self._set_timer(max(earliest_s, now_s + TIMER_S_MIN))
