"""Whether a replica gains on its leader, on given times."""

from __future__ import annotations

from penstock.core.replication.catch_up import GAIN_S, CatchUpProgress


def test_a_replica_that_comes_closer_gains() -> None:
    progress = CatchUpProgress()
    for number in range(10):
        progress.note(1_000 - number, 5_000 + 100 * number, number * GAIN_S)
        assert not progress.is_losing


def test_a_replica_that_does_not_come_closer_loses_until_it_has_caught_up() -> None:
    progress = CatchUpProgress()
    progress.note(1_000, 5_000, 0.0)
    progress.note(2_000, 6_000, GAIN_S / 2)
    assert not progress.is_losing, "that is too soon to tell"
    progress.note(1_000, 7_000, GAIN_S)
    assert progress.is_losing
    progress.note(10, 8_000, 2 * GAIN_S)
    assert progress.is_losing, "with the limit it would lose again"
    progress.note(0, 8_000, 3 * GAIN_S)
    assert not progress.is_losing


def test_a_replica_that_waits_for_its_turn_loses_nothing_while_nothing_is_written() -> None:
    progress = CatchUpProgress()
    progress.note(1_000, 5_000, 0.0)
    progress.note(1_000, 5_000, GAIN_S)
    assert not progress.is_losing
