"""What a row of the race runs on: the entrants that are here, places on disk, CPUs, how much to do. Never prints."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from penstock.apps.measuring.machine import Cpus
from penstock.apps.race.entrants import Entrant
from penstock.apps.race.servers.runner import Promise, Running, running

BREAKS_MAX = 2
"""Whoever breaks more laps of a row than one is not waited for again."""
WORDS_MAX = 300


@dataclass(slots=True)
class Course:
    """One run of the race."""

    root: Path
    cpus: Cpus
    is_quick: bool
    entrants: Sequence[Entrant]
    on_step: Callable[[str], None]
    _homes: int = field(default=0)
    _breaks: dict[str, list[str]] = field(default_factory=dict)

    @property
    def laps(self) -> int:
        """How often each entrant runs, in turns with the others."""
        return 2 if self.is_quick else 5

    @property
    def lap_s(self) -> float:
        """How long a lap is measured where only a rate counts; as long again is run before, to get warm."""
        return 0.5 if self.is_quick else 1.5

    def pick(self, full: int, quick: int) -> int:
        return quick if self.is_quick else full

    @contextmanager
    def started(self, entrant: Entrant, promise: Promise) -> Iterator[Running]:
        """A fresh server on a fresh directory, on a disk that has nothing left to write."""
        self._homes += 1
        home = self.root / f"{self._homes:03d}"
        os.sync()
        try:
            with running(entrant.runner, home, self.cpus.server, promise) as server:
                yield server
        finally:
            shutil.rmtree(home, ignore_errors=True)

    def take_turns(self, row: str, run: Callable[[Entrant], float | None]) -> dict[str, list[float]]:
        """A-B-A-B: every entrant once, then all of them again; None means that it has no such thing.

        A lap that breaks is noted and the others run on; who breaks twice is out of the row.
        """
        samples: dict[str, list[float]] = {}
        for lap in range(1, self.laps + 1):
            for entrant in self.entrants:
                name = entrant.runner.name
                self.on_step(f"{row}: {name}, lap {lap} of {self.laps}")
                if len(self._breaks.get(name, ())) >= BREAKS_MAX:
                    continue
                try:
                    value = run(entrant)
                except Exception as error:  # noqa: BLE001 - told in the result, and the other laps still run
                    self._breaks.setdefault(name, []).append(f"lap {lap} broke: {_words(error)}")
                    continue
                if value is not None:
                    samples.setdefault(name, []).append(value)
        return samples

    def take_breaks(self) -> dict[str, str]:
        """Whose laps broke since the last call, and how."""
        breaks, self._breaks = self._breaks, {}
        return {name: "; ".join(found) for name, found in breaks.items()}


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:WORDS_MAX]
