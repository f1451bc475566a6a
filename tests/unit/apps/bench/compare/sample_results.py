"""Results for the tests of reports."""

from __future__ import annotations

from penstock.apps.bench.compare.report import result
from penstock.apps.bench.compare.runs.line_result import LineResult

FACTS = {"date": "today"}


def of_rows(*line_results: LineResult, **more: dict[str, str]) -> result.ComparisonResult:
    found = result.ComparisonResult(dict(FACTS), **more)
    found.rows["a-row"] = result.RowResult("today", list(line_results))
    return found


def line_result(
    ours: list[float], theirs: list[float], *, more: bool = True, target: float = 1.0
) -> LineResult:
    samples = {"Penstock": ours, "Kafka": [1.0, 1.0], "Redis": theirs}
    return LineResult("1", "a row", "msg/s", samples, more, target, {"NATS": "not supported"})
