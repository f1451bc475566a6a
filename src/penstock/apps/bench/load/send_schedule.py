"""When each message is due, as an open loop: a late acknowledgement does not delay the next message.

Latency counts from when a message was due, not from when it could be sent, so a broker that stalls for a second
shows up in every message that was due in that second.
"""

from __future__ import annotations

NS_PER_S = 1_000_000_000


class SendSchedule:
    """Message number n is due `n / rate` seconds after the start; without a rate, at the time it is sent."""

    def __init__(self, rate: float | None, started_ns: int) -> None:
        self._step_ns = NS_PER_S / rate if rate else 0.0
        self._started_ns = started_ns

    @property
    def is_open(self) -> bool:
        """Whether messages have a due time of their own."""
        return self._step_ns > 0

    def due_ns(self, number: int, now_ns: int) -> int:
        """When message `number` is, or was, due."""
        return self._started_ns + int(number * self._step_ns) if self._step_ns else now_ns
