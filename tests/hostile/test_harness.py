"""The harness itself: a quiet broker costs its good client next to nothing, and a stalled loop is noticed."""

from __future__ import annotations

import pytest

from hostile.harness import GROWTH_MIB_MAX, WAIT_CPU_MS_MAX, Harness, Row, check


def test_nobody_attacks(harness: Harness) -> None:
    with harness.case("none", "nobody attacks"):
        harness.good._ends.wait(0.2)
    assert harness.good.answers > 1
    assert harness.good.longest_cpu_ns > 0


@pytest.mark.parametrize(
    ("wait_cpu_ms", "growth_mib"),
    [(WAIT_CPU_MS_MAX + 1, 0.0), (0.0, GROWTH_MIB_MAX + 1)],
    ids=["wait", "memory"],
)
def test_what_hurts_others_fails(wait_cpu_ms: float, growth_mib: float) -> None:
    row = Row("none", "made up", 0.0, 0.0, 0.0, growth_mib, wait_cpu_ms, 0.0, 0.0, 1)
    with pytest.raises(AssertionError, match=r"waited|grew"):
        check(row, GROWTH_MIB_MAX)
