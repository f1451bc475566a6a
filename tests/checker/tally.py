"""How many operations the workers have begun so far: only what is new in their diaries is read."""

from __future__ import annotations

from pathlib import Path

from checker.history import INVOKE, WORK, Event

_MARKS = [
    Event(0, 0, INVOKE, f).encode().partition('"type"')[2].partition(',"value"')[0].encode() for f in WORK
]
"""What lines of such events have in common."""


class Tally:
    """Of all diaries in a directory."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._ends: dict[Path, int] = {}
        self._count = 0

    def count(self) -> int:
        for path in self._home.glob("diary-*.jsonl"):
            with path.open("rb") as diary:
                diary.seek(self._ends.get(path, 0))
                whole, newline, _ = diary.read().rpartition(b"\n")
            self._ends[path] = self._ends.get(path, 0) + len(whole) + len(newline)
            self._count += sum(whole.count(mark) for mark in _MARKS)
        return self._count
