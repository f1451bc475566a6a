"""Which writes on their way a marker makes void."""

from __future__ import annotations

from penstock.core.log.marker_guards import MarkerGuards

PRODUCER, OTHER = 7, 8


def test_a_marker_makes_writes_of_its_transaction_void() -> None:
    guards = MarkerGuards()
    mine, newer, other = guards.begin(PRODUCER, 3), guards.begin(PRODUCER, 4), guards.begin(OTHER, 3)
    guards.void(PRODUCER, 3, is_bumped=False)
    assert (mine.is_void, newer.is_void, other.is_void) == (True, False, False)


def test_a_marker_with_a_bumped_epoch_spares_the_next_transaction() -> None:
    guards = MarkerGuards()
    ended, following = guards.begin(PRODUCER, 3), guards.begin(PRODUCER, 4)
    guards.void(PRODUCER, 4, is_bumped=True)
    assert (ended.is_void, following.is_void) == (True, False)


def test_whoever_writes_markers_elsewhere_is_not_heard_of_here() -> None:
    guards = MarkerGuards()
    both = guards.begin(PRODUCER, 3), guards.begin(OTHER, 0)
    guards.void_all()
    assert all(one.is_void for one in both)


def test_nothing_remains_of_writes_that_ended() -> None:
    guards = MarkerGuards()
    one, two = guards.begin(PRODUCER, 3), guards.begin(PRODUCER, 3)
    guards.end(PRODUCER, one)
    guards.void(PRODUCER, 3, is_bumped=False)
    assert (one.is_void, two.is_void, len(guards)) == (False, True, 1)
    guards.end(PRODUCER, two)
    guards.end(PRODUCER, two)
    assert len(guards) == 0
