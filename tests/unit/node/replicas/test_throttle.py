"""Limits of bytes per second for copies, on given times."""

from __future__ import annotations

from penstock.node.replicas.throttle import (
    CATCH_UP_BYTES_MAX,
    CATCH_UP_PARTITION_BYTES_MAX,
    FETCH_BYTES_MIN,
    MOVE_BYTES_MAX,
    REST_SHARE,
    Throttle,
    catch_up_throttle,
)


def test_a_replica_that_returns_rests_for_a_share_of_the_time_that_it_worked() -> None:
    throttle = catch_up_throttle(lambda: 1 << 40)
    assert throttle.wait_s(10.0) == 0.0
    throttle.rest(0.5 / REST_SHARE, 10.0)
    assert (throttle.wait_s(10.0), throttle.wait_s(10.25), throttle.wait_s(10.5)) == (0.5, 0.25, 0.0)
    throttle.rest(0.5 / REST_SHARE, 11.0)
    throttle.rest(0.1, 11.0)
    assert throttle.wait_s(11.0) == 0.5, "several fetchers share the limit"


def test_a_move_does_not_rest_nor_does_a_replica_without_a_limit() -> None:
    for throttle in (Throttle(lambda: 1 << 40), catch_up_throttle(lambda: 0)):
        throttle.rest(0.5, 10.0)
        assert throttle.wait_s(10.0) == 0.0


def test_a_fetch_is_a_fraction_of_the_limit_of_a_second() -> None:
    for rate, move_bytes, catch_up_bytes in (
        (0, MOVE_BYTES_MAX, CATCH_UP_BYTES_MAX),
        (1, FETCH_BYTES_MIN, FETCH_BYTES_MIN),
        (1 << 20, 1 << 18, 1 << 18),
        (1 << 40, MOVE_BYTES_MAX, CATCH_UP_BYTES_MAX),
    ):
        moves, catch_up = Throttle(lambda rate=rate: rate), catch_up_throttle(lambda rate=rate: rate)
        assert (moves.fetch_bytes_max, catch_up.fetch_bytes_max) == (move_bytes, catch_up_bytes)
        assert catch_up.partition_bytes_max == min(catch_up_bytes, CATCH_UP_PARTITION_BYTES_MAX)
