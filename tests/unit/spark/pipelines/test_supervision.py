"""Restarts as a pure machine: which failures are repeated, how long after, how often, and what is forgotten."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.pipelines.supervision import (
    BACKOFF_MS,
    BACKOFF_MS_MAX,
    ENDED,
    FAILED,
    NEXT,
    ONCE_RESTARTS_MAX,
    RESTARTING,
    RUNNING,
    STARTING,
    STEADY_MS,
    STOPPED,
    Fault,
    RestartPolicy,
    Supervision,
    fault_of,
)


def fail(one: Supervision, now_ms: int, fault: Fault = Fault.TRANSIENT) -> int:
    """Fail now; how long the next start is away."""
    one.failed(now_ms, fault, "p: it went wrong")
    return one.due_ms - now_ms


def test_the_table_reaches_every_state_and_leaves_no_terminal_one() -> None:
    assert not [state for state, _ in NEXT if state in ENDED]
    assert {STARTING, *NEXT.values()} == {STARTING, RUNNING, RESTARTING, *ENDED}


def test_a_move_outside_the_table_is_a_defect() -> None:
    one = Supervision(RestartPolicy(1), 0)
    one.started(0)
    with pytest.raises(AssertionError, match="a pipeline that is running cannot start"):
        one.started(1)


def test_each_restart_waits_longer_until_the_last_one_fails() -> None:
    one, now_ms, waits = Supervision(RestartPolicy(8), 0), 0, []
    while one.state != FAILED:
        waits.append(fail(one, now_ms))
        if one.state == RESTARTING:
            now_ms = one.due_ms
            assert not one.is_due(now_ms - 1)
            one.restarting(now_ms)
            one.started(now_ms)
            now_ms += 10
    assert waits[:8] == [1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000]
    assert (one.restarts, one.error, one.failed_ms, one.since_ms) == (8, "p: it went wrong", now_ms, now_ms)


def test_a_steady_run_forgets_its_restarts() -> None:
    one = Supervision(RestartPolicy(1), 0)
    assert fail(one, 0) == BACKOFF_MS
    one.restarting(BACKOFF_MS)
    one.started(BACKOFF_MS)
    fail(one, BACKOFF_MS + STEADY_MS)
    assert (one.state, one.restarts) == (RESTARTING, 1)
    one.restarting(one.due_ms)
    fail(one, one.due_ms)
    assert one.state == FAILED


@pytest.mark.parametrize(
    ("fault", "is_once", "restarts_max", "state"),
    [
        (Fault.FINAL, False, None, FAILED),
        (Fault.TRANSIENT, False, 0, FAILED),
        (Fault.TRANSIENT, True, 1, RESTARTING),
        (Fault.UNKNOWN, False, 1, RESTARTING),
        (Fault.UNKNOWN, True, 1, FAILED),
        (Fault.UNKNOWN, False, None, RESTARTING),
    ],
)
def test_what_is_repeated(fault: Fault, is_once: bool, restarts_max: int | None, state: str) -> None:
    one = Supervision(RestartPolicy(restarts_max, is_once), 0)
    fail(one, 5, fault)
    assert one.state == state


def test_a_run_that_is_to_end_gives_up_soon() -> None:
    one, now_ms = Supervision(RestartPolicy(None, is_once=True), 0), 0
    while one.state != FAILED:
        fail(one, now_ms)
        if one.state == RESTARTING:
            now_ms = one.due_ms
            one.restarting(now_ms)
    assert (one.restarts, now_ms) == (ONCE_RESTARTS_MAX, 7_000)


def test_a_stop_while_a_restart_is_due_ends_it() -> None:
    one = Supervision(RestartPolicy(5), 0)
    fail(one, 0)
    one.ended(10)
    assert (one.state, one.error) == (STOPPED, "p: it went wrong")
    assert not one.is_due(10**9)


@given(st.lists(st.integers(0, 2 * STEADY_MS), max_size=40), st.integers(0, 12))
def test_never_more_restarts_than_allowed_and_never_a_longer_wait(runs_ms: list[int], most: int) -> None:
    one, now_ms = Supervision(RestartPolicy(most), 0), 0
    for run_ms in runs_ms:
        if one.state == STARTING:
            one.started(now_ms)
        if one.state != RUNNING:
            break
        now_ms += run_ms
        assert fail(one, now_ms) <= BACKOFF_MS_MAX
        assert one.restarts <= most
        if one.state == RESTARTING:
            now_ms = one.due_ms
            one.restarting(now_ms)


@pytest.mark.parametrize(
    ("said", "fault"),
    [
        ("SparkException: Python worker failed to connect back.", Fault.TRANSIENT),
        ("penstock.client.errors.Unreachable: no broker answers at x:1", Fault.TRANSIENT),
        ("java.io.IOException: No space left on device", Fault.TRANSIENT),
        ("penstock.spark.errors.BadRows: p: rows", Fault.FINAL),
        ("pyspark.errors.exceptions.captured.AnalysisException: [X] y", Fault.FINAL),
        ("penstock.client.errors.NotFound: there is no topic 'a'", Fault.FINAL),
        ("ValueError: seven", Fault.UNKNOWN),
        ("ModuleNotFoundError: No module named 'x'", Fault.UNKNOWN),
    ],
)
def test_kinds_of_failures(said: str, fault: Fault) -> None:
    assert fault_of(said) is fault
