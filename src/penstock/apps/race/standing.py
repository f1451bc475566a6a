"""How a row ended: everybody's samples, and ours against the best of the others. Never measures.

A ratio is refused when the middle half of either side's laps lies further apart than a quarter of their median.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from statistics import median, quantiles
from typing import Any

from penstock.apps.measuring.figures import SPREAD_MAX
from penstock.apps.race.entrants import OURS

LAPS_MIN = 5
"""From so many laps on, one that went wrong does not make the others worthless."""


def spread(samples: list[float]) -> float:
    """How far the middle half of the laps lies apart, as a share of their median; all of them when they are few."""
    low, high = min(samples), max(samples)
    if len(samples) >= LAPS_MIN:
        low, _, high = quantiles(samples, n=4, method="inclusive")
    middle = median(samples)
    return (high - low) / middle if middle else 0.0


@dataclass(frozen=True, slots=True)
class Standing:
    """One line of the table."""

    number: str
    row: str
    unit: str
    samples: Mapping[str, list[float]]
    is_more_better: bool
    target: float | None = None
    """What our ratio to the best of the others should be at least."""
    absent: Mapping[str, str] | None = None
    """Who did not run in this row, or not every lap of it, and why."""
    bound_max: float | None = None
    """What our own value should be at most, whatever the others do."""
    over: Mapping[str, float] | None = None
    """What our ratio to one of them should be at least, besides that to the best."""

    def without(self, breaks: Mapping[str, str]) -> Standing:
        """The same, with those whose laps broke."""
        return replace(self, absent={**(self.absent or {}), **breaks})

    def value(self, name: str) -> float | None:
        found = self.samples.get(name)
        return median(found) if found else None

    @property
    def best_peer(self) -> str | None:
        peers = [name for name in self.samples if name != OURS]
        choose = max if self.is_more_better else min
        return choose(peers, key=lambda name: median(self.samples[name]), default=None)

    @property
    def noisy(self) -> list[str]:
        """Those of the two sides of the ratio whose samples are too far apart."""
        return self.noisy_with(self.best_peer)

    def noisy_with(self, peer: str | None) -> list[str]:
        sides = [name for name in (OURS, peer) if name is not None and name in self.samples]
        return [name for name in sides if spread(self.samples[name]) > SPREAD_MAX]

    def ratio_to(self, peer: str) -> float | None:
        """How many times better we are than one of them; None without figures of both."""
        ours, theirs = self.value(OURS), self.value(peer)
        if not ours or not theirs:
            return None
        return ours / theirs if self.is_more_better else theirs / ours

    def least_ratio_to(self, peer: str) -> float:
        """Our worst lap to the best of one of them: what is sure even when laps lie far apart."""
        ours, theirs = self.samples[OURS], self.samples[peer]
        return min(ours) / max(theirs) if self.is_more_better else min(theirs) / max(ours)

    @property
    def ratio(self) -> float | None:
        """Ours to the best of the others; above one is won. None when it may not be told."""
        best = self.best_peer
        return None if best is None or self.noisy else self.ratio_to(best)

    def as_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "row": self.row,
            "unit": self.unit,
            "more_is_better": self.is_more_better,
            "samples": {name: list(found) for name, found in self.samples.items()},
            "best_peer": self.best_peer,
            "ratio": self.ratio,
            "noisy": self.noisy,
            "target": self.target,
            "bound_max": self.bound_max,
            "over": dict(self.over or {}),
            "absent": dict(self.absent or {}),
        }
