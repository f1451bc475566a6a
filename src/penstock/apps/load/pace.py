"""When each message is due. An open loop: a late answer does not make the next message later. Never sleeps itself.

The time of a message counts from the moment it was due, not from the moment it could be sent: a broker that
stands still for a second is seen by every message that was due in that second.
"""

from __future__ import annotations

NS_PER_S = 1_000_000_000


class Pace:
    """Message number n is due `n / rate` seconds after the start; without a rate, as soon as it can be sent."""

    def __init__(self, rate: float | None, started_ns: int) -> None:
        self._step_ns = NS_PER_S / rate if rate else 0.0
        self._started_ns = started_ns

    @property
    def is_open(self) -> bool:
        return self._step_ns > 0

    def due_ns(self, number: int, now_ns: int) -> int:
        """When message `number` is, or was, due."""
        return self._started_ns + int(number * self._step_ns) if self._step_ns else now_ns
