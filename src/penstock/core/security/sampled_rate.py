"""Rates over sample windows, token buckets, and the throttle time that brings a rate back to its bound. No clock.

The arithmetic is that of Kafka's quotas, window for window, so that clients are delayed as long as on Kafka.
"""

from __future__ import annotations

import math
from typing import NamedTuple

SAMPLES = 11
"""Ten whole windows and the current one; Kafka's default."""
WINDOW_MS = 1_000


class MeasuredRate(NamedTuple):
    """A rate per second, and the time over which it was measured."""

    per_second: float
    window_ms: int


class _Sample:
    """What was recorded in one window."""

    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.reset(now_ms)

    def reset(self, now_ms: int) -> None:
        self.start_ms = self.last_ms = now_ms
        self.value = 0.0


class SampledRate:
    """A rate of recorded values over the last windows. A first value counts as if the windows before it were empty,
    so that a short burst is within its quota."""

    __slots__ = ("_current", "_samples", "_samples_max", "_window_ms")

    def __init__(self, samples: int = SAMPLES, window_ms: int = WINDOW_MS) -> None:
        self._samples_max = samples
        self._window_ms = window_ms
        self._samples: list[_Sample] = []
        self._current = 0

    def record(self, value: float, now_ms: int) -> None:
        """Record a value; a negative one takes an earlier one back."""
        if not self._samples:
            self._samples.append(_Sample(now_ms))
        sample = self._samples[self._current]
        if now_ms - sample.start_ms >= self._window_ms:
            sample = self._advance(now_ms)
        sample.value += value
        sample.last_ms = now_ms

    def _advance(self, now_ms: int) -> _Sample:
        # One more sample than windows: the oldest may overlap the start of the measured time.
        self._current = (self._current + 1) % (self._samples_max + 1)
        if self._current >= len(self._samples):
            self._samples.append(_Sample(now_ms))
        else:
            self._samples[self._current].reset(now_ms)
        return self._samples[self._current]

    def measure(self, now_ms: int) -> MeasuredRate:
        """The rate now. Samples without a value in the measured time start again, empty."""
        expired_ms = now_ms - self._samples_max * self._window_ms
        total, oldest_ms = 0.0, now_ms
        for sample in self._samples:
            if sample.last_ms <= expired_ms:
                sample.reset(now_ms)
            total += sample.value
            oldest_ms = min(oldest_ms, sample.start_ms)
        elapsed_ms = now_ms - oldest_ms
        missing = self._samples_max - 1 - elapsed_ms // self._window_ms
        if missing > 0:
            elapsed_ms += missing * self._window_ms
        window_ms = max(elapsed_ms, 1)
        return MeasuredRate(total / (window_ms / 1_000), window_ms)


class TokenBucket:
    """Tokens that flow in at a rate, up to a burst. It may be overdrawn once and must then be filled again."""

    __slots__ = ("_last_ms", "_samples", "_window_ms", "tokens")

    def __init__(self, bound: float, now_ms: int, samples: int = SAMPLES, window_ms: int = WINDOW_MS) -> None:
        self._samples = samples
        self._window_ms = window_ms
        self._last_ms = now_ms
        self.tokens = self._burst(bound)

    def record(self, value: float, bound: float, now_ms: int) -> None:
        """Take tokens out; a negative value puts them back."""
        self.refill(bound, now_ms)
        self.tokens = min(self._burst(bound), self.tokens - value)

    def refill(self, bound: float, now_ms: int) -> None:
        gained = bound * (now_ms - self._last_ms) / 1_000
        self.tokens = min(self._burst(bound), self.tokens + gained)
        self._last_ms = now_ms

    def throttle_ms(self, bound: float) -> int:
        """How long until the bucket is not overdrawn any more."""
        return 0 if self.tokens >= 0 else _rounded(-self.tokens * 1_000 / bound)

    def _burst(self, bound: float) -> float:
        return self._samples * self._window_ms / 1_000 * bound


def throttle_time_ms(rate: MeasuredRate, bound: float, cap_ms: int | None = None) -> int:
    """How long a client must be silent until its rate is within its bound; 0 if it is."""
    if rate.per_second <= bound:
        return 0
    throttle_ms = _rounded((rate.per_second - bound) / bound * rate.window_ms)
    return throttle_ms if cap_ms is None else min(throttle_ms, cap_ms)


def _rounded(value: float) -> int:
    """Half up, as Java rounds."""
    return math.floor(value + 0.5)
