"""Result of one line of the comparison: every lap of every server, and our ratio to the best of the others.

A ratio is refused when the middle half of either side's laps lies further apart than a quarter of their median.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from statistics import median, quantiles
from typing import Any

from penstock.apps.measuring.figures import SPREAD_MAX
from penstock.apps.race.entrants import OURS

LAPS_MIN = 5
"""From so many laps on, one outlier does not invalidate the others."""

Samples = Mapping[str, list[float]]
"""Values of every lap, by server."""


def spread(samples: list[float]) -> float:
    """Distance of the middle half of the laps as a share of their median; of all laps when they are few."""
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
    samples: Samples
    is_more_better: bool
    target: float | None = None
    """Smallest ratio to the best of the others that counts as met."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Servers that did not run every lap of this row, and why."""
    bound_max: float | None = None
    """Largest value of our own that counts as met, whatever the others do."""
    over: Mapping[str, float] = field(default_factory=dict)
    """Smallest ratio to single peers, besides that to the best."""
    cold: Mapping[str, float] = field(default_factory=dict)
    """First lap of a server that was started for it. Never part of a ratio."""
    cpu_us: Samples = field(default_factory=dict)
    """CPU time of the server's process tree per message, in the laps of `samples`."""
    size_bytes: int = 0
    """Size of the messages that `cpu_us` counts."""
    why: str = ""
    """Why Penstock is behind where it is, as far as that was measured."""

    def with_absent(self, absent: Mapping[str, str]) -> Standing:
        return replace(self, absent={**self.absent, **absent})

    def value(self, name: str) -> float | None:
        found = self.samples.get(name)
        return median(found) if found else None

    def cpu_us_per_message(self, name: str) -> float | None:
        found = self.cpu_us.get(name)
        return median(found) if found else None

    def cpu_s_per_gb(self, name: str) -> float | None:
        cost_us = self.cpu_us_per_message(name)
        return None if cost_us is None or not self.size_bytes else cost_us * 1e3 / self.size_bytes

    @property
    def best_peer(self) -> str | None:
        peers = [name for name in self.samples if name != OURS]
        choose = max if self.is_more_better else min
        return choose(peers, key=lambda name: median(self.samples[name]), default=None)

    @property
    def noisy(self) -> list[str]:
        """Sides of the ratio to the best peer whose laps lie too far apart."""
        return self.noisy_with(self.best_peer)

    def noisy_with(self, peer: str | None) -> list[str]:
        sides = [name for name in (OURS, peer) if name is not None and name in self.samples]
        return [name for name in sides if spread(self.samples[name]) > SPREAD_MAX]

    def ratio_to(self, peer: str) -> float | None:
        """How many times better we are than a peer; None without figures of both."""
        ours, theirs = self.value(OURS), self.value(peer)
        if not ours or not theirs:
            return None
        return ours / theirs if self.is_more_better else theirs / ours

    def least_ratio_to(self, peer: str) -> float:
        """Our worst lap to the best lap of a peer: holds even when laps lie far apart."""
        ours, theirs = self.samples[OURS], self.samples[peer]
        return min(ours) / max(theirs) if self.is_more_better else min(theirs) / max(ours)

    @property
    def ratio(self) -> float | None:
        """Ours to the best of the others; above one is won. None when it is refused."""
        best = self.best_peer
        return None if best is None or self.noisy else self.ratio_to(best)

    def as_json(self) -> dict[str, Any]:
        """All fields, and what derives from them for other readers of the file."""
        derived = {"best_peer": self.best_peer, "ratio": self.ratio, "noisy": self.noisy}
        return {**asdict(self), "derived": derived}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Standing:
        return cls(**{name: value for name, value in content.items() if name != "derived"})
