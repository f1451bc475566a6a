"""One row of the comparison as data: its lines, its load, and who cannot take part. `course` runs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from penstock.apps.race.course import Course, Found, Heat, Lap
from penstock.apps.race.servers.runner import Promise
from penstock.apps.race.standing import Standing


@dataclass(frozen=True, slots=True)
class Line:
    """One figure of a row."""

    number: str
    text: str
    unit: str
    is_more_better: bool
    target: float | None = None
    over: Mapping[str, float] = field(default_factory=dict)
    bound_max: float | None = None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """Lines that one load measures together. Calling it runs it."""

    title: str
    lines: tuple[Line, ...]
    lap: Callable[[Heat], Lap]
    size_bytes: int
    promise: Promise = Promise.OS
    without: Mapping[str, str] = field(default_factory=dict)
    """Servers that have no such thing, and why."""
    steady_at: int = 0
    """Index of the line that says whether a server is warm; a p99 is too restless for it."""

    def __call__(self, course: Course) -> list[Standing]:
        found = course.race_warm(self.title, self.promise, self.lap, list(self.without), self.steady_at)
        names = {one.runner.name for one in course.entrants}
        absent = {name: why for name, why in self.without.items() if name in names}
        return standings(self.lines, found, self.size_bytes, absent)


def standings(
    lines: tuple[Line, ...], found: Found, size_bytes: int, absent: Mapping[str, str] | None = None
) -> list[Standing]:
    """A standing for each line; notes and costs belong to the first."""
    made = []
    for at, line in enumerate(lines):
        samples = {name: [values[at] for values in laps] for name, laps in found.values.items()}
        cold = {name: values[at] for name, values in found.cold.items()}
        notes = {name: "; ".join(texts) for name, texts in found.notes.items()}
        is_first = at == 0
        made.append(
            Standing(
                line.number, line.text, line.unit, samples, line.is_more_better, line.target,
                absent={**(absent or {}), **notes} if is_first else {},
                bound_max=line.bound_max, over=dict(line.over), cold=cold,
                cpu_us=dict(found.cpu_us) if is_first else {}, size_bytes=size_bytes, why=line.why,
            )
        )  # fmt: skip
    return made
