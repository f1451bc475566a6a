"""Percentiles of many times."""

from __future__ import annotations

import pytest

from penstock.apps.bench.load.latency import HIGHEST_US, Latency, show_us


def test_percentiles_are_those_of_what_was_recorded() -> None:
    latency = Latency()
    for each in range(1, 10_001):
        latency.record(each * 1_000)
    summary = latency.summary_us()
    assert list(summary) == ["p50", "p90", "p99", "p99.9", "p99.99", "max"]
    for name, exact in (("p50", 5_000), ("p90", 9_000), ("p99", 9_900), ("p99.99", 9_999), ("max", 10_000)):
        assert summary[name] == pytest.approx(exact, rel=0.002)


def test_what_another_process_recorded_adds_up() -> None:
    left, right = Latency(), Latency()
    left.record(1_000_000)
    right.record(9_000_000)
    left.add_encoded(right.encode())
    assert left.count == 2
    assert left.summary_us()["max"] == pytest.approx(9_000, rel=0.002)


def test_what_is_beyond_the_range_counts_as_its_end() -> None:
    latency = Latency()
    latency.record(HIGHEST_US * 5_000)
    latency.record(-5)
    assert latency.count == 2
    assert latency.summary_us()["max"] == pytest.approx(HIGHEST_US, rel=0.002)


def test_nothing_recorded_has_no_percentiles() -> None:
    assert Latency().summary_us() == {}


@pytest.mark.parametrize(("us", "words"), [(870, "870 us"), (12_345, "12.3 ms"), (4_500_000, "4.5 s")])
def test_times_are_shown_in_the_unit_that_fits(us: int, words: str) -> None:
    assert show_us(us) == words
