"""The best window of a run counts."""

from __future__ import annotations

import pytest

from penstock.apps.bench.harness.windows import WindowRate, best_percentile


def test_the_fastest_window_of_a_run_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock_s = iter([0, 1, 3, 4])
    monkeypatch.setattr("time.perf_counter_ns", lambda: next(clock_s) * 1_000_000_000)
    window = WindowRate(50)
    for done in (5, 10, 12, 30, 41):
        window.reached(done)
    assert window.best == 11, "10 in one second, 20 in two, 11 in one"


def test_the_lowest_percentile_of_all_windows_counts() -> None:
    times = [9.0] * 20 + [5.0] * 18 + [7.0, 8.0] + [6.0] * 60
    assert best_percentile(times, 0.5) == 5
    assert best_percentile(times, 0.99) == 6
    assert best_percentile([4.0, 3.0], 0.5) == 3
