"""Lifeguard's local health: how much this peer trusts its own observations."""

from __future__ import annotations

WORST = 7


class LocalHealth:
    """0 is healthy. Each point stretches probe interval and timeout by one more of their length, because a slow peer
    sees failures that are its own."""

    __slots__ = ("score",)

    def __init__(self) -> None:
        self.score = 0

    def change(self, points: int) -> None:
        self.score = min(WORST, max(0, self.score + points))

    def stretched_ms(self, period_ms: float) -> float:
        return period_ms * (self.score + 1)
