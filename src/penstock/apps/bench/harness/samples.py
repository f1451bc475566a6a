"""Statistics over samples, and how a number is printed. Measures nothing."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, quantiles

SPREAD_MAX = 0.25
"""Samples whose spread exceeds this share of their median are noisy."""
MIDDLE_SAMPLES_MIN = 5
"""From this many samples on, `middle_spread` ignores the outer quarters, so that one outlier does not count."""


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted samples lie."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def spread(samples: Sequence[float]) -> float:
    """Distance between the smallest and the largest sample, as a share of the median."""
    return _share_of_median(max(samples) - min(samples), samples)


def middle_spread(samples: Sequence[float]) -> float:
    """Distance between the quartiles as a share of the median; the whole spread if there are few samples."""
    if len(samples) < MIDDLE_SAMPLES_MIN:
        return spread(samples)
    low, _, high = quantiles(samples, n=4, method="inclusive")
    return _share_of_median(high - low, samples)


def _share_of_median(distance: float, samples: Sequence[float]) -> float:
    middle = median(samples)
    return distance / middle if middle else 0.0


def format_number(value: float) -> str:
    """`1,234`, `567`, `8.9`: three significant digits, and whole numbers from 100 on."""
    if value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"
