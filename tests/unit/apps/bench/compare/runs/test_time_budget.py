"""The remaining time of a comparison."""

from __future__ import annotations

from penstock.apps.bench.compare.runs.time_budget import TOTAL_S_MAX, TimeBudget


def test_the_remaining_time_is_extrapolated_from_the_rows_so_far() -> None:
    now_s = [0.0]
    budget = TimeBudget(["ingest-kb", "ingest-small"], is_quick=False, clock=lambda: now_s[0])
    assert budget.left_s() == 280
    now_s[0] = 280.0
    budget.finish("ingest-kb")
    assert budget.left_s() == 280, "the first took twice as long as planned"
    assert budget.over_at_s("ingest-small") == TOTAL_S_MAX
