"""Changes of leaders and in-sync replicas are counted once, whichever broker tells of them and however late."""

from __future__ import annotations

from checker.sight import Changes, PartitionView, View

NAME = ("t0", 0)


def seen(leader: int, epoch: int, *isr: int) -> View:
    return View(1, {NAME: PartitionView(leader, epoch, (1, 2, 3), frozenset(isr))})


def counted(*views: View) -> tuple[int, int]:
    changes = Changes("127.0.0.1:1")
    for one in views:
        changes.look(one)
    return changes.leader_changes, changes.isr_changes


def test_the_first_look_is_no_change() -> None:
    assert counted(seen(1, 4, 1, 2, 3), seen(1, 4, 1, 2, 3)) == (0, 0)


def test_leaders_by_epoch_although_some_were_never_seen() -> None:
    assert counted(seen(1, 4, 1, 2, 3), seen(1, 7, 1, 2, 3)) == (3, 0)


def test_shrinks_and_expansions() -> None:
    assert counted(seen(1, 4, 1, 2, 3), seen(1, 4, 1, 2), seen(1, 4, 1, 2, 3)) == (0, 2)
    assert counted(seen(1, 4, 1, 2, 3), seen(2, 5, 2, 3)) == (1, 1)


def test_a_broker_that_lags_behind_counts_nothing() -> None:
    assert counted(seen(1, 4, 1, 2, 3), seen(2, 5, 2, 3), seen(1, 4, 1, 2, 3), seen(2, 5, 2, 3)) == (1, 1)
