"""Rates and throttle times: bursts, steady loads, idle clients, token buckets."""

from __future__ import annotations

from penstock.core.security.sampled_rate import (
    MeasuredRate,
    SampledRate,
    TokenBucket,
    throttle_time_ms,
)

START_MS = 1_000_000


def test_a_burst_counts_over_all_windows() -> None:
    rate = SampledRate()
    rate.record(5_000, START_MS)
    assert rate.measure(START_MS) == MeasuredRate(500.0, 10_000)
    assert rate.measure(START_MS + 500) == MeasuredRate(5_000 / 10.5, 10_500)


def test_a_steady_load_is_measured_as_it_is() -> None:
    rate = SampledRate()
    for second in range(60):
        for part in range(4):
            rate.record(250, START_MS + second * 1_000 + part * 250)
    measured = rate.measure(START_MS + 60_000)
    assert 900 < measured.per_second < 1_100
    assert 10_000 <= measured.window_ms <= 12_000


def test_an_idle_client_starts_again() -> None:
    rate = SampledRate()
    rate.record(1_000_000, START_MS)
    assert rate.measure(START_MS + 11_000).per_second == 0
    rate.record(100, START_MS + 11_000)
    assert rate.measure(START_MS + 11_000) == MeasuredRate(10.0, 10_000)


def test_what_is_taken_back_does_not_count() -> None:
    rate = SampledRate()
    rate.record(700, START_MS)
    rate.record(-700, START_MS + 1)
    assert rate.measure(START_MS + 1).per_second == 0


def test_after_the_throttle_time_the_rate_is_within_its_bound() -> None:
    rate = SampledRate()
    rate.record(20_000, START_MS)
    measured = rate.measure(START_MS)
    throttle_ms = throttle_time_ms(measured, 1_000)
    assert throttle_ms == 10_000
    assert measured.per_second * measured.window_ms / (measured.window_ms + throttle_ms) <= 1_000
    assert throttle_time_ms(measured, 1_000, cap_ms=300) == 300
    assert throttle_time_ms(measured, 2_000) == 0, "the bound itself is allowed"


def test_a_token_bucket_may_be_overdrawn_once() -> None:
    bucket = TokenBucket(bound=2.0, now_ms=START_MS)
    bucket.record(22, 2.0, START_MS)
    assert (bucket.tokens, bucket.throttle_ms(2.0)) == (0.0, 0)
    bucket.record(10, 2.0, START_MS)
    assert bucket.throttle_ms(2.0) == 5_000
    bucket.refill(2.0, START_MS + 5_000)
    assert bucket.throttle_ms(2.0) == 0
    bucket.refill(2.0, START_MS + 3_600_000)
    assert bucket.tokens == 22.0, "the burst is the limit"
