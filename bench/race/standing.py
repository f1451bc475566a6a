"""How a row ended: everybody's samples, and ours against the best of the others. Never measures.

A ratio is refused when the samples of either side lie further apart than a quarter of their median.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median
from typing import Any

from bench.figures import SPREAD_MAX
from bench.race.entrants import OURS


def spread(samples: list[float]) -> float:
    middle = median(samples)
    return (max(samples) - min(samples)) / middle if middle else 0.0


@dataclass(frozen=True, slots=True)
class Standing:
    """One line of the table."""

    number: str
    row: str
    unit: str
    samples: Mapping[str, list[float]]
    is_more_better: bool
    target: float | None = None
    absent: Mapping[str, str] | None = None
    """Who did not run in this row, and why."""

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
        sides = [name for name in (OURS, self.best_peer) if name is not None and name in self.samples]
        return [name for name in sides if spread(self.samples[name]) > SPREAD_MAX]

    def ratio_to(self, peer: str) -> float | None:
        """How many times better we are than one of them; None without figures of both."""
        ours, theirs = self.value(OURS), self.value(peer)
        if not ours or not theirs:
            return None
        return ours / theirs if self.is_more_better else theirs / ours

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
            "absent": dict(self.absent or {}),
        }
