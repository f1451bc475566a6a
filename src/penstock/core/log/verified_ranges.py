"""The byte ranges of a file that were verified. segment.py verifies them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right


class VerifiedRanges:
    """Disjoint ranges in ascending order; adjacent ranges are merged."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []

    def covers(self, start: int, end: int) -> bool:
        at = bisect_right(self._starts, start) - 1
        return at >= 0 and end <= self._ends[at]

    def add(self, start: int, end: int) -> None:
        """Add a range, merging it with those it touches."""
        if end <= start:
            return
        first = bisect_left(self._ends, start)
        behind = bisect_right(self._starts, end)
        if first < behind:
            start, end = min(start, self._starts[first]), max(end, self._ends[behind - 1])
        self._starts[first:behind] = [start]
        self._ends[first:behind] = [end]

    def cut(self, end: int) -> None:
        """Remove everything from `end` on."""
        keep = bisect_left(self._starts, end)
        del self._starts[keep:], self._ends[keep:]
        if keep:
            self._ends[-1] = min(self._ends[-1], end)
