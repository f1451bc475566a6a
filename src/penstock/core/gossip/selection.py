"""Random choices from the random numbers that the host provides."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from penstock.core.ports import Rng

T = TypeVar("T")


def shuffled(rng: Rng, items: Sequence[T]) -> list[T]:
    """All items in random order."""
    return chosen(rng, items, len(items))


def chosen(rng: Rng, items: Sequence[T], count: int) -> list[T]:
    """Up to `count` different items."""
    pool = list(items)
    count = min(count, len(pool))
    for at in range(count):
        other = at + rng.below(len(pool) - at)
        pool[at], pool[other] = pool[other], pool[at]
    return pool[:count]
