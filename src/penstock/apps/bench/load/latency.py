"""Latencies of many messages in one histogram of fixed size and precision."""

from __future__ import annotations

from typing import Any

HIGHEST_US = 600_000_000
DIGITS = 3
PERCENTILES = (50.0, 90.0, 99.0, 99.9, 99.99)


class MissingPackage(Exception):
    """A package that only this command needs is not installed."""


class Latency:
    """A histogram of microseconds with three significant digits."""

    def __init__(self) -> None:
        self._histogram = _new_histogram()

    def record(self, duration_ns: int) -> None:
        """Add one latency; a value out of range counts as the nearest bound."""
        self._histogram.record_value(min(HIGHEST_US, max(1, duration_ns // 1_000)))

    def add_encoded(self, encoded: bytes) -> None:
        """Add the histogram of another process."""
        self._histogram.decode_and_add(encoded)

    def encode(self) -> bytes:
        encoded: bytes = self._histogram.encode()
        return encoded

    @property
    def count(self) -> int:
        return int(self._histogram.get_total_count())

    def summary_us(self) -> dict[str, int]:
        """`{"p50": …, "p99.99": …, "max": …}`; empty if nothing was recorded."""
        if not self.count:
            return {}
        found = {f"p{each:g}": int(self._histogram.get_value_at_percentile(each)) for each in PERCENTILES}
        return {**found, "max": int(self._histogram.get_max_value())}


def _new_histogram() -> Any:
    try:
        from hdrh.histogram import HdrHistogram
    except ImportError as error:
        raise MissingPackage(
            "Percentiles need the package hdrhistogram; install it with: pip install 'penstock[bench]'"
        ) from error
    return HdrHistogram(1, HIGHEST_US, DIGITS)


def show_us(microseconds: int) -> str:
    """`870 us`, `12.3 ms`, `4.50 s`."""
    if microseconds < 1_000:
        return f"{microseconds} us"
    if microseconds < 1_000_000:
        return f"{microseconds / 1_000:.3g} ms"
    return f"{microseconds / 1_000_000:.3g} s"
