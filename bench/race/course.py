"""What a row of the race runs on: the entrants that are here, places on disk, CPUs, how much to do. Never prints."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench.machine import Cpus
from bench.race.entrants import Entrant
from bench.race.servers.runner import Promise, Running, running


@dataclass(slots=True)
class Course:
    """One run of the race."""

    root: Path
    cpus: Cpus
    is_quick: bool
    entrants: Sequence[Entrant]
    on_step: Callable[[str], None]
    _homes: int = field(default=0)

    @property
    def laps(self) -> int:
        """How often each entrant runs, in turns with the others."""
        return 2 if self.is_quick else 5

    def pick(self, full: int, quick: int) -> int:
        return quick if self.is_quick else full

    @contextmanager
    def started(self, entrant: Entrant, promise: Promise) -> Iterator[Running]:
        """A fresh server on a fresh directory."""
        self._homes += 1
        home = self.root / f"{self._homes:03d}"
        with running(entrant.runner, home, self.cpus.server, promise) as server:
            yield server
        shutil.rmtree(home, ignore_errors=True)

    def take_turns(self, row: str, run: Callable[[Entrant], float | None]) -> dict[str, list[float]]:
        """A-B-A-B: every entrant once, then all of them again; None means that it has no such thing."""
        samples: dict[str, list[float]] = {}
        for lap in range(self.laps):
            for entrant in self.entrants:
                name = entrant.runner.name
                self.on_step(f"{row}: {name}, lap {lap + 1} of {self.laps}")
                value = run(entrant)
                if value is not None:
                    samples.setdefault(name, []).append(value)
        return samples
