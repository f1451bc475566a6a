"""Runs in processes of their own: all outcomes arrive, and no run outlives the campaign."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from checker.plan import Outcome, Plan
from checker.side_by_side import run_side_by_side


def test_each_run_has_a_process_of_its_own() -> None:
    outcomes = list(run_side_by_side(lambda seed: Outcome(Plan(seed), load_ops=os.getpid()), range(5), 2))
    assert sorted(outcome.plan.seed for outcome in outcomes) == list(range(5))
    assert len({outcome.load_ops for outcome in outcomes} - {os.getpid()}) == 5


def test_one_at_a_time_needs_no_process() -> None:
    [outcome] = run_side_by_side(lambda seed: Outcome(Plan(seed), load_ops=os.getpid()), [7], 1)
    assert outcome.load_ops == os.getpid()


def test_two_runs_are_under_way_at_the_same_time(tmp_path: Path) -> None:
    """Each of them waits for the other."""
    for name in "01":
        os.mkfifo(tmp_path / name)

    def meet(seed: int) -> Outcome:
        mine, other = tmp_path / str(seed), tmp_path / str(1 - seed)
        if seed:
            mine.write_bytes(b"here")
            other.read_bytes()
        else:
            other.read_bytes()
            mine.write_bytes(b"here")
        return Outcome(Plan(seed))

    assert len(list(run_side_by_side(meet, range(2), 2))) == 2


def test_a_run_that_dies_ends_the_campaign() -> None:
    with pytest.raises(RuntimeError, match="left with 3"):
        list(run_side_by_side(lambda _: os._exit(3), range(2), 2))


@pytest.fixture
def deaf_to_sigterm() -> Iterator[None]:
    """This process has a handler for SIGTERM that does nothing, as a command that ran in it may have left one."""
    before = signal.signal(signal.SIGTERM, lambda *_: None)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.mark.usefixtures("deaf_to_sigterm")
def test_whoever_stops_listening_ends_what_is_under_way(tmp_path: Path) -> None:
    """Runs inherit the handlers of this process."""
    os.mkfifo(tmp_path / "forever")

    def run(seed: int) -> Outcome:
        if seed:
            (tmp_path / "forever").read_bytes()
        return Outcome(Plan(seed))

    with contextlib.closing(run_side_by_side(run, range(2), 2)) as outcomes:
        assert next(outcomes).plan.seed == 0
    with pytest.raises(OSError, match="No such device"):  # nobody reads it any more
        os.open(tmp_path / "forever", os.O_WRONLY | os.O_NONBLOCK)
