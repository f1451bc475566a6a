"""A measured figure, its samples and its verdict. Never measures anything itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

SPREAD_MAX = 0.25
"""Samples that lie further apart than this share of their median are called noisy."""


@dataclass(frozen=True, slots=True)
class Target:
    """A bound that the median has to keep."""

    bound: float
    is_floor: bool

    def holds(self, value: float) -> bool:
        return value >= self.bound if self.is_floor else value <= self.bound

    def shortfall(self, value: float) -> float:
        """How many times the bound is missed by; 1.0 is just met."""
        if self.is_floor:
            return self.bound / value if value else float("inf")
        return value / self.bound if self.bound else float("inf")


def at_most(bound: float) -> Target:
    return Target(bound, is_floor=False)


def at_least(bound: float) -> Target:
    return Target(bound, is_floor=True)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. Without a target it is only reported."""

    name: str
    unit: str
    samples: tuple[float, ...]
    compared_with: str
    target: Target | None = None

    @property
    def value(self) -> float:
        return median(self.samples)

    @property
    def spread(self) -> float:
        """Distance between the outermost samples, as a share of the median."""
        if len(self.samples) < 2 or not self.value:
            return 0.0
        return (max(self.samples) - min(self.samples)) / self.value

    @property
    def is_noisy(self) -> bool:
        return self.spread > SPREAD_MAX

    @property
    def is_met(self) -> bool | None:
        """None without a target, and when samples far apart fall on both sides of it: that run decides nothing."""
        if self.target is None:
            return None
        verdicts = {self.target.holds(sample) for sample in self.samples}
        if len(verdicts) > 1 and self.is_noisy:
            return None
        return self.target.holds(self.value)

    def as_json(self) -> dict[str, Any]:
        target = self.target
        return {
            "name": self.name,
            "unit": self.unit,
            "value": self.value,
            "spread": self.spread,
            "samples": list(self.samples),
            "bound": None if target is None else target.bound,
            "bound_is_floor": None if target is None else target.is_floor,
            "is_met": self.is_met,
            "compared_with": self.compared_with,
        }


def figure(
    name: str, unit: str, samples: Sequence[float], compared_with: str, target: Target | None = None
) -> Figure:
    assert samples, f"{name} was not measured"
    return Figure(name, unit, tuple(samples), compared_with, target)


def percentile(ordered: Sequence[float], share: float) -> float:
    """The value below which `share` of the sorted samples lie."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]
