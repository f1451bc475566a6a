"""One row of the comparison as data: its lines, its load, and the brokers without such a feature.

`row_runner` runs it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from penstock.apps.bench.compare.runs.line_result import LineResult
from penstock.apps.bench.compare.runs.row_runner import MeasureRun, RowRunner, RowSamples
from penstock.core.model import Durability


@dataclass(frozen=True, slots=True)
class RowLine:
    """One figure of a row."""

    number: str
    text: str
    unit: str
    is_more_better: bool
    target: float | None = None
    over: Mapping[str, float] = field(default_factory=dict)
    bound_max: float | None = None
    bound_min: float | None = None
    is_worst: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    """Lines that one load measures together. Calling the row measures it."""

    title: str
    lines: tuple[RowLine, ...]
    measure: MeasureRun
    size_bytes: int
    durability: Durability = Durability.OS
    without: Mapping[str, str] = field(default_factory=dict)
    """Servers that do not support the row, and why."""
    steady_at: int = 0
    """Index of the line that decides whether a server is warm; a p99 varies too much for that."""
    warm_with: MeasureRun | None = None
    """The load of the warm-up, if it is not that of the row; then there is no cold run."""

    def __call__(self, runner: RowRunner) -> list[LineResult]:
        samples = runner.run_warm(
            self.title, self.durability, self.measure, list(self.without), self.steady_at, self.warm_with
        )
        names = {one.launcher.name for one in runner.contenders}
        absent = {name: why for name, why in self.without.items() if name in names}
        return line_results(self.lines, samples, self.size_bytes, absent)


def line_results(
    lines: tuple[RowLine, ...], samples: RowSamples, size_bytes: int, absent: Mapping[str, str] | None = None
) -> list[LineResult]:
    """One result per line; notes and CPU time belong to the first."""
    results = []
    for at, line in enumerate(lines):
        values = {name: [run[at] for run in runs] for name, runs in samples.values.items()}
        cold = {name: run[at] for name, run in samples.cold.items()}
        notes = {name: "; ".join(texts) for name, texts in samples.notes.items()}
        is_first = at == 0
        results.append(
            LineResult(
                line.number, line.text, line.unit, values, line.is_more_better, line.target,
                absent={**(absent or {}), **notes} if is_first else {},
                bound_max=line.bound_max, bound_min=line.bound_min, is_worst=line.is_worst,
                over=dict(line.over), cold=cold,
                cpu_us=dict(samples.cpu_us) if is_first else {}, size_bytes=size_bytes, why=line.why,
            )
        )  # fmt: skip
    return results
