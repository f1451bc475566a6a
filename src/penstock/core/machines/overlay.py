"""A copy-on-write view of a mapping, on which a decision applies its events tentatively."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableMapping
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")

_GONE = object()


class Overlay(MutableMapping[K, V], Generic[K, V]):
    """Its cost depends on the changes, not on the mapping below, which must not change while the overlay is in use."""

    __slots__ = ("_below", "_changed", "_length")

    def __init__(self, below: Mapping[K, V]) -> None:
        self._below = below
        self._changed: dict[K, V | object] = {}
        self._length = len(below)

    def __getitem__(self, key: K) -> V:
        found = self._changed.get(key, self)
        if found is self:
            return self._below[key]
        if found is _GONE:
            raise KeyError(key)
        return found  # type: ignore[return-value]

    def __contains__(self, key: object) -> bool:
        found = self._changed.get(key, self)  # type: ignore[arg-type]
        return key in self._below if found is self else found is not _GONE

    def __setitem__(self, key: K, value: V) -> None:
        self._length += key not in self
        self._changed[key] = value

    def __delitem__(self, key: K) -> None:
        if key not in self:
            raise KeyError(key)
        self._length -= 1
        self._changed[key] = _GONE

    def __iter__(self) -> Iterator[K]:
        """Existing keys in their order, then new ones, as in a dict that is updated in place."""
        changed = self._changed
        for key in self._below:
            if changed.get(key) is not _GONE:
                yield key
        for key in list(changed):
            if changed[key] is not _GONE and key not in self._below:
                yield key

    def __len__(self) -> int:
        return self._length

    def clear(self) -> None:
        self._below, self._changed, self._length = {}, {}, 0
