"""A limit of bytes per second, on given times."""

from __future__ import annotations

from penstock.core.replication.rate_limit import BURST_S, RateLimit


def test_no_limit_never_waits() -> None:
    limit = RateLimit()
    limit.spend(10**12)
    assert limit.wait_s(0, 1.0) == 0.0


def test_over_time_the_rate_is_kept() -> None:
    limit, now_s, spent = RateLimit(), 0.0, 0
    while now_s < 100:
        wait_s = limit.wait_s(1_000, now_s)
        if wait_s:
            now_s += wait_s
            continue
        limit.spend(700)
        spent += 700
    assert 99_000 <= spent <= 100_000 + 1_000 * BURST_S + 700


def test_time_without_reads_is_saved_for_a_moment_only() -> None:
    limit = RateLimit()
    assert limit.wait_s(1_000, 0.0) == 0.0
    limit.spend(250)
    assert limit.wait_s(1_000, 3_600.0) == 0.0
    limit.spend(1_250)
    assert limit.wait_s(1_000, 3_600.0) == 1.0


def test_a_new_rate_counts_at_once() -> None:
    limit = RateLimit()
    limit.wait_s(1_000, 0.0)
    limit.spend(1_250)
    assert limit.wait_s(1_000, 0.0) == 1.0
    assert limit.wait_s(1_000_000, 0.0) == 0.001
