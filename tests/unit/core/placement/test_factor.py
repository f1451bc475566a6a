"""More and fewer replicas: what stays, what is added on which rack, and what goes first."""

from __future__ import annotations

import pytest

from penstock.core.model import PartitionId
from penstock.core.placement.factor import propose_factor
from penstock.core.placement.ring import RingBroker

TOPIC = bytes(range(16))
SIX = [RingBroker(one, f"rack-{one % 3}") for one in range(1, 7)]


def place(index: int) -> PartitionId:
    return PartitionId(TOPIC, index)


def test_replicas_are_added_on_other_racks_and_evenly() -> None:
    placements = {place(index): (1 + index % 6,) for index in range(60)}
    moves = propose_factor(SIX, placements, list(placements), 3)
    assert len(moves) == 60
    racks = {one.broker_id: one.rack for one in SIX}
    counts = dict.fromkeys(racks, 0)
    for move in moves:
        assert move.after[:1] == move.before, "the preferred leader stays"
        assert len({racks[one] for one in move.after}) == 3
        for one in move.after:
            counts[one] += 1
    assert max(counts.values()) - min(counts.values()) <= 4, counts


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ((1, 2, 3, 4), (1, 2, 3)),  # 4 shares the rack of 1
        ((4, 1, 2, 3), (4, 2, 3)),
        ((9, 1, 2, 3), (1, 2, 3)),  # 9 is away
        ((1, 2, 3), (1, 2, 3)),
    ],
)
def test_what_is_removed_first(before: tuple[int, ...], after: tuple[int, ...]) -> None:
    moves = propose_factor(SIX, {place(0): before}, [place(0)], 3)
    assert [one.after for one in moves] == ([after] if after != before else [])


def test_the_preferred_leader_is_the_last_to_go() -> None:
    (move,) = propose_factor(SIX, {place(0): (4, 2, 1)}, [place(0)], 1)
    assert move.after == (4,)
