"""When a process is started again: longer delays, short ones after a quiet minute, and the end after too many exits."""

from __future__ import annotations

from penstock.apps.restart_backoff import RestartBackoff


def test_delays_double_up_to_the_longest() -> None:
    policy = RestartBackoff(0.5, 4.0)
    assert [policy.after_exit(now, 0.1) for now in range(6)] == [0.5, 1.0, 2.0, 4.0, 4.0, 4.0]


def test_a_process_that_ran_for_a_minute_starts_with_the_shortest_delay() -> None:
    policy = RestartBackoff(0.5, 30.0)
    assert [policy.after_exit(now, 1) for now in range(3)] == [0.5, 1.0, 2.0]
    assert policy.after_exit(100, 60) == 0.5
    assert policy.after_exit(101, 1) == 1.0


def test_five_exits_within_a_minute_are_the_end() -> None:
    policy = RestartBackoff(0.5, 30.0, exits_max=5)
    assert None not in [policy.after_exit(now, 1) for now in (0, 15, 30, 45)]
    assert policy.after_exit(60, 1) is None


def test_exits_that_are_further_apart_are_not() -> None:
    policy = RestartBackoff(0.5, 30.0, exits_max=5)
    assert None not in [policy.after_exit(16.0 * number, 1) for number in range(50)]


def test_a_start_that_fails_waits_longer_as_well() -> None:
    policy = RestartBackoff(0.5, 30.0)
    assert (policy.after_exit(0, 1), policy.next_delay_s(), policy.next_delay_s()) == (0.5, 1.0, 2.0)
