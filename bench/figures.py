"""A measured figure with its samples, its target and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from penstock.apps.bench.harness.samples import SPREAD_MAX, spread


@dataclass(frozen=True, slots=True)
class Target:
    """A bound for the median."""

    bound: float
    is_floor: bool

    def holds(self, value: float) -> bool:
        return value >= self.bound if self.is_floor else value <= self.bound

    def shortfall(self, value: float) -> float:
        """The factor by which the bound is missed; 1.0 just meets it."""
        if self.is_floor:
            return self.bound / value if value else float("inf")
        return value / self.bound if self.bound else float("inf")


def at_most(bound: float) -> Target:
    return Target(bound, is_floor=False)


def at_least(bound: float) -> Target:
    return Target(bound, is_floor=True)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table. Without a target it is reported only."""

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
        return spread(self.samples)

    @property
    def is_noisy(self) -> bool:
        return self.spread > SPREAD_MAX

    @property
    def is_met(self) -> bool | None:
        """None without a target, and if noisy samples fall on both sides of it: the run is inconclusive."""
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
