"""What a row of the race runs on: the entrants that are here, places on disk, CPUs, how much to do. Never prints."""

from __future__ import annotations

import math
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from penstock.apps.measuring.machine import Cpus, StolenCpu
from penstock.apps.race.entrants import Entrant
from penstock.apps.race.servers.runner import Promise, Running, running

BREAKS_MAX = 2
"""Whoever breaks more laps of a row than one is not waited for again."""
WORDS_MAX = 300
STOLEN_MAX = 0.1
"""A lap is run again when the host gave more than this share of its processor time to other machines."""

Figures = tuple[float, ...]
"""What one lap found: a value for each line of the row."""
Lap = Callable[[Entrant], Figures | None]
Samples = dict[str, list[float]]
"""The laps of everybody, for one line."""


@dataclass(slots=True)
class Course:
    """One run of the race."""

    root: Path
    cpus: Cpus
    is_quick: bool
    entrants: Sequence[Entrant]
    on_step: Callable[[str], None]
    over_at_s: float = math.inf
    """When the row that is run should be over, by the monotonic clock: later laps that do not fit are left out."""
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

    @property
    def tries(self) -> int:
        """How often a lap may be run until the host leaves it alone; the least disturbed one counts."""
        return 1 if self.is_quick else 3

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

    def take_turns(self, row: str, run: Lap, lines: int = 1) -> tuple[Samples, ...]:
        """A-B-A-B: every entrant once, then all of them again; None means that it has no such thing.

        A lap that breaks is noted and the others run on; who breaks twice is out of the row.
        """
        samples: tuple[Samples, ...] = tuple({} for _ in range(lines))
        began_s = time.monotonic()
        for lap in range(1, self.laps + 1):
            if lap > 1 and not self._has_time_for(lap, began_s):
                break
            for entrant in self.entrants:
                name = entrant.runner.name
                self.on_step(f"{row}: {name}, lap {lap} of {self.laps}")
                if len(self._breaks.get(name, ())) >= BREAKS_MAX:
                    continue
                try:
                    figures = self._least_disturbed(run, entrant)
                except Exception as error:  # noqa: BLE001 - told in the result, and the other laps still run
                    self._breaks.setdefault(name, []).append(f"lap {lap} broke: {_words(error)}")
                    continue
                if figures is not None:
                    for line, value in zip(samples, figures, strict=True):
                        line.setdefault(name, []).append(value)
        return samples

    def _has_time_for(self, lap: int, began_s: float) -> bool:
        """Whether a lap like those before it would be over in time."""
        now_s = time.monotonic()
        return now_s + (now_s - began_s) / (lap - 1) <= self.over_at_s

    def _least_disturbed(self, run: Lap, entrant: Entrant) -> Figures | None:
        laps: list[tuple[float, Figures | None]] = []
        while len(laps) < self.tries:
            stolen = StolenCpu()
            figures = run(entrant)
            share = stolen.share()
            laps.append((share, figures))
            if share <= STOLEN_MAX or figures is None:
                break
        return min(laps, key=lambda lap: lap[0])[1]

    def take_breaks(self) -> dict[str, str]:
        """Whose laps broke since the last call, and how."""
        breaks, self._breaks = self._breaks, {}
        return {name: "; ".join(found) for name, found in breaks.items()}


def _words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:WORDS_MAX]
