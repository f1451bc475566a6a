"""When a ratio counts, and when it is inconclusive."""

from __future__ import annotations

from penstock.apps.bench.compare.report import tables
from unit.apps.bench.compare.sample_results import line_result


def test_the_ratio_is_that_to_the_best_peer() -> None:
    assert line_result([30, 30], [20, 20]).ratio == 1.5
    assert line_result([30, 30], [20, 20]).best_peer == "Redis"
    assert line_result([2, 2], [4, 4], more=False).best_peer == "Kafka"
    assert line_result([2, 2], [4, 4], more=False).ratio == 0.5


def test_a_ratio_is_inconclusive_when_runs_vary_too_much() -> None:
    one = line_result([30, 50], [20, 20])
    assert one.ratio is None
    assert one.noisy == ["Penstock"]
    assert "inconclusive: runs of Penstock" in tables.verdict(one)
    assert line_result([30, 31], [20, 30]).noisy == ["Redis"]


def test_a_lower_bound_is_reported_for_noisy_runs() -> None:
    assert tables.verdict(line_result([30, 50], [20, 10])).endswith(
        "; worst run of Penstock is 1.50 × the best of Redis"
    )
    assert "worst run" not in tables.verdict(line_result([30, 50], [20, 40]))
    less = line_result([2, 3], [4, 9], more=False)
    assert less.least_ratio_to("Redis") == 4 / 3


def test_one_outlier_of_five_runs_is_ignored() -> None:
    assert line_result([30, 31, 32, 33, 3], [20] * 5).ratio == 31 / 20
    assert line_result([30, 31, 32, 3, 3], [20] * 5).noisy == ["Penstock"]
