"""Result of one line of the comparison: every run of every server, and the ratio of Penstock to its best peer.

A ratio is inconclusive when the middle half of either side's runs spreads over more than a quarter of their median.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import median
from typing import Any

from penstock.apps.bench.compare.runs.contenders import OURS
from penstock.apps.bench.harness.samples import SPREAD_MAX, middle_spread

Samples = Mapping[str, list[float]]
"""The value of every run, by server."""


@dataclass(frozen=True, slots=True)
class LineResult:
    """One line of the table."""

    number: str
    row: str
    unit: str
    samples: Samples
    is_more_better: bool
    target: float | None = None
    """Smallest ratio to the best peer that meets the target."""
    absent: Mapping[str, str] = field(default_factory=dict)
    """Servers that did not complete every run of this row, and why."""
    bound_max: float | None = None
    """Largest value of Penstock that meets the target, independent of the peers."""
    bound_min: float | None = None
    """Smallest value of Penstock that meets the target, independent of the peers."""
    is_worst: bool = False
    """Whether the worst run is the value, instead of the median of all."""
    over: Mapping[str, float] = field(default_factory=dict)
    """Smallest ratio to single peers, in addition to the ratio to the best one."""
    cold: Mapping[str, float] = field(default_factory=dict)
    """The first run of a server that was started for it. Not part of any ratio."""
    cpu_us: Samples = field(default_factory=dict)
    """CPU time of the server's process tree per message, in the runs of `samples`."""
    size_bytes: int = 0
    """Size of the messages that `cpu_us` counts."""
    why: str = ""
    """Why Penstock is slower, as far as that was measured."""

    def value(self, name: str) -> float | None:
        found = self.samples.get(name)
        if not found:
            return None
        if self.is_worst:
            return min(found) if self.is_more_better else max(found)
        return median(found)

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
        return choose(peers, key=lambda name: self.value(name) or 0.0, default=None)

    @property
    def noisy(self) -> list[str]:
        """Sides of the ratio to the best peer whose runs vary too much."""
        return self.noisy_with(self.best_peer)

    def noisy_with(self, peer: str | None) -> list[str]:
        if self.is_worst:
            return []
        sides = [name for name in (OURS, peer) if name is not None and name in self.samples]
        return [name for name in sides if middle_spread(self.samples[name]) > SPREAD_MAX]

    def has_spread(self, peer: str) -> bool:
        """Whether both sides have more than one run, so that their spread is known."""
        return min(len(self.samples[name]) for name in (OURS, peer)) > 1

    def ratio_to(self, peer: str) -> float | None:
        """How many times better Penstock is than a peer; None unless both were measured."""
        ours, theirs = self.value(OURS), self.value(peer)
        if not ours or not theirs:
            return None
        return ours / theirs if self.is_more_better else theirs / ours

    def least_ratio_to(self, peer: str) -> float:
        """The worst run of Penstock to the best run of a peer: a lower bound that holds for noisy runs as well."""
        ours, theirs = self.samples[OURS], self.samples[peer]
        return min(ours) / max(theirs) if self.is_more_better else min(theirs) / max(ours)

    @property
    def ratio(self) -> float | None:
        """Penstock to its best peer; above 1 Penstock is better. None if inconclusive."""
        best = self.best_peer
        return None if best is None or self.noisy else self.ratio_to(best)

    def as_json(self) -> dict[str, Any]:
        """All fields, and values derived from them for other readers of the file."""
        derived = {"best_peer": self.best_peer, "ratio": self.ratio, "noisy": self.noisy}
        return {**asdict(self), "derived": derived}

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> LineResult:
        return cls(**{name: value for name, value in content.items() if name != "derived"})
