"""A bounded mapping with lookups at the speed of a dict. Approximates least recently used.

Entries are in a young and an old generation. When the young generation is full, it becomes the old one, and the
previous old generation is dropped; a lookup moves an entry of the old generation to the young one.
"""

from __future__ import annotations

from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Holds at most `entries_max` entries. Values must not be None."""

    __slots__ = ("_generation_max", "_old", "young")

    def __init__(self, entries_max: int) -> None:
        assert entries_max >= 2, entries_max
        self._generation_max = entries_max // 2
        self.young: dict[K, V] = {}
        """Looked up directly where a call would cost too much; `get` finds the rest."""
        self._old: dict[K, V] = {}

    def __len__(self) -> int:
        return len(self.young) + sum(key not in self.young for key in self._old)

    def get(self, key: K) -> V | None:
        found = self.young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is not None:
                self.put(key, found)
        return found

    def put(self, key: K, value: V) -> None:
        if len(self.young) >= self._generation_max and key not in self.young:
            self._old, self.young = self.young, {}
        self.young[key] = value

    def clear(self) -> None:
        self.young, self._old = {}, {}
