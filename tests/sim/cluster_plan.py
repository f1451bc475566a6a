"""What the topics of one run promise, so that its faults cannot break more than that. Decides nothing during a run.

A record that is not synced survives the loss of one machine if it is on another one that is in sync, and stays there
for as long as it takes to notice: with two replicas in sync at least. With fewer, what the last one forgets is lost.
"""

from __future__ import annotations

import random
from collections.abc import Collection
from typing import NamedTuple

FACTOR_MAX = 3
"""Replicas of a partition."""
FORGETFUL = frozenset({"power loss", "power loss of all", "death inside a disk operation", "failed sync"})
"""Kinds of faults after which records may be missing everywhere that were not synced."""
LOSING = frozenset({"power loss of a spare", "lost disk", "damaged segment"})
"""Kinds of faults after which one broker has lost records that others have."""
DURABILITIES = ("fsync", "fsync", "os", "interval")
"""What topics promise in runs without forgetful faults."""
FLUSH_MS = "1000"


class Plan(NamedTuple):
    """How topics are created and changed."""

    durability: str
    factor_min: int
    minimums: tuple[int, ...]
    """Values of min.insync.replicas."""

    def factor(self, chance: random.Random, brokers: int = FACTOR_MAX) -> int:
        return chance.randint(min(self.factor_min, brokers), min(FACTOR_MAX, brokers))

    def settings(self, chance: random.Random, factor: int) -> dict[str, str]:
        """Of a new topic with so many replicas."""
        minimum = min(factor, chance.choice(self.minimums))
        return {
            "penstock.durability": self.durability,
            "flush.ms": FLUSH_MS,
            "min.insync.replicas": str(minimum),
        }


def plan_for(fault_kinds: Collection[str], chance: random.Random) -> Plan:
    """A plan that these kinds of faults leave intact."""
    durability = "fsync" if FORGETFUL & {*fault_kinds} else chance.choice(DURABILITIES)
    return Plan(durability, 2, (2,)) if LOSING & {*fault_kinds} else Plan(durability, 1, (1, 2))
