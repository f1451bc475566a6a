"""A limit of bytes per second: a token bucket with time as an argument.

A read may take more than is left, because its size is known afterwards only; the next one waits until the debt is paid.
"""

from __future__ import annotations

BURST_S = 0.25
"""What was not used for this long can be used at once, unless the owner chooses otherwise."""


class RateLimit:
    """The budget of one direction of one broker. The rate may change between calls; 0 or less means no limit."""

    def __init__(self, burst_s: float = BURST_S) -> None:
        self._burst_s = burst_s
        self._left_bytes = 0.0
        self._at_s: float | None = None

    def wait_s(self, bytes_per_s: int, now_s: float) -> float:
        """How long to wait before the next read; 0 if it may start now."""
        if bytes_per_s <= 0:
            self._left_bytes, self._at_s = 0.0, None
            return 0.0
        burst_bytes = bytes_per_s * self._burst_s
        if self._at_s is None:
            self._left_bytes = burst_bytes
        else:
            earned = max(0.0, now_s - self._at_s) * bytes_per_s
            self._left_bytes = min(self._left_bytes + earned, burst_bytes)
        self._at_s = now_s
        return 0.0 if self._left_bytes > 0 else max(-self._left_bytes, 1) / bytes_per_s

    def spend(self, size_bytes: int) -> None:
        """These bytes were read."""
        self._left_bytes -= size_bytes
