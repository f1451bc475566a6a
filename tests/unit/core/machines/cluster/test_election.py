"""The order of candidates in an election."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.core.machines.cluster.election import Elected, ElectionKind, elect
from penstock.core.machines.cluster.values import NO_LEADER, PartitionReplicas


class Brokers:
    """Brokers that are active, and brokers that are stopping; all others are fenced. Some have returned lately."""

    def __init__(self, active: set[int], stopping: set[int], recent: Sequence[int] = ()) -> None:
        self._active, self._stopping, self._recent = active, stopping, recent

    def is_fenced(self, broker_id: int) -> bool:
        return broker_id not in self._active | self._stopping

    def can_lead(self, broker_id: int) -> bool:
        return broker_id in self._active

    def recency(self, broker_id: int) -> int:
        return 1 + self._recent.index(broker_id) if broker_id in self._recent else 0


def partition(
    isr: tuple[int, ...], elr: tuple[int, ...], leader: int, last_leader: int = NO_LEADER
) -> PartitionReplicas:
    return PartitionReplicas(bytes(16), 0, (1, 2, 3), isr, leader, elr=elr, last_leader=last_leader)


@pytest.mark.parametrize(
    ("given", "active", "kind", "expected"),
    [
        (partition((1, 2), (), 2), {1, 2}, None, Elected(2)),
        (partition((1, 2), (), 2), {1, 2}, ElectionKind.PREFERRED, Elected(1)),
        (partition((2, 3), (), 3), {1, 2, 3}, ElectionKind.PREFERRED, Elected(3)),
        (partition((3, 2), (), 1), {2, 3}, None, Elected(2)),
        (partition((3,), (2,), 1), {2}, None, Elected(NO_LEADER)),
        (partition((), (3, 2), NO_LEADER), {2, 3}, None, Elected(2)),
        (partition((), (3,), NO_LEADER, 2), {2}, None, Elected(NO_LEADER)),
        (partition((), (), NO_LEADER, 2), {1, 2}, None, Elected(2, is_unclean=True)),
        (partition((), (), NO_LEADER, 2), {1, 3}, None, Elected(NO_LEADER)),
        (partition((), (3,), NO_LEADER, 2), {1, 2}, ElectionKind.UNCLEAN, Elected(1, is_unclean=True)),
        (partition((), (3,), NO_LEADER, 2), set(), ElectionKind.UNCLEAN, Elected(NO_LEADER)),
        (partition((), (3,), NO_LEADER, 2), {1, 3}, ElectionKind.UNCLEAN, Elected(3)),
    ],
)
def test_the_order_of_candidates(
    given: PartitionReplicas, active: set[int], kind: ElectionKind | None, expected: Elected
) -> None:
    assert elect(given, Brokers(active, set()), kind) == expected


def test_a_stopping_leader_stays_only_if_nobody_can_take_over() -> None:
    assert elect(partition((1, 2), (), 1), Brokers({2}, {1})) == Elected(2)
    assert elect(partition((1,), (2,), 1), Brokers({2}, {1})) == Elected(1)
    assert elect(partition((2,), (), NO_LEADER), Brokers(set(), {2})) == Elected(NO_LEADER)


def test_a_broker_that_has_returned_lately_leads_only_if_no_other_can() -> None:
    given = partition((1, 2, 3), (), 1)
    assert elect(given, Brokers({2, 3}, {1}, [2])) == Elected(3)
    assert elect(given, Brokers({2, 3}, {1}, [3, 2])) == Elected(3), "it returned before the other"
    assert elect(given, Brokers({2}, {1}, [3, 2])) == Elected(2)
    assert elect(given, Brokers({1, 2, 3}, set(), [1])) == Elected(1), "the present leader stays"
