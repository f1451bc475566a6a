"""What a worker writes down: one line per event, each handed to the system at once, so that kill -9 loses none."""

from __future__ import annotations

from pathlib import Path

from checker.history import Event


class Diary:
    """The file of one worker."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", encoding="utf-8", buffering=1)

    def write(self, event: Event) -> None:
        self._file.write(event.encode() + "\n")
