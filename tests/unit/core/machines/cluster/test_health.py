"""The health of partitions: what counts as offline, under-replicated, below and at its minimum."""

from __future__ import annotations

import pytest

from penstock.core.machines.cluster.health import PartitionHealth, health_of, isr_size_min_of, last_known_of
from penstock.core.machines.cluster.values import NO_LEADER, PartitionReplicas


class Brokers:
    """Only these are not fenced."""

    def __init__(self, *active: int) -> None:
        self._active = active

    def is_fenced(self, broker_id: int) -> bool:
        return broker_id not in self._active


def placed(isr: tuple[int, ...], leader: int = 1, **more: tuple[int, ...]) -> PartitionReplicas:
    return PartitionReplicas(bytes(16), 0, (1, 2, 3), isr, leader)._replace(**more)


@pytest.mark.parametrize(
    ("given", "active", "wrong"),
    [
        (placed((1, 2, 3)), (1, 2, 3), ()),
        (placed((1, 2)), (1, 2, 3), ("is_under_replicated", "is_at_min_isr")),
        (placed((1, 2, 3)), (1, 2), ("is_under_replicated", "is_at_min_isr")),
        (placed((1,)), (1, 2, 3), ("is_under_replicated", "is_under_min_isr")),
        (placed((), NO_LEADER), (), ("is_offline", "is_under_replicated", "is_under_min_isr")),
        (placed((1, 2), adding=(3,)), (1, 2, 3), ("is_at_min_isr",)),
        (placed((1, 3), adding=(3,)), (1, 2, 3), ("is_under_min_isr",)),
    ],
)
def test_what_is_wrong(given: PartitionReplicas, active: tuple[int, ...], wrong: tuple[str, ...]) -> None:
    found = health_of(given, 2, Brokers(*active))
    assert found == PartitionHealth(*(name in wrong for name in PartitionHealth._fields))


def test_a_minimum_above_the_factor_is_the_factor() -> None:
    assert isr_size_min_of(placed((1, 2, 3)), 5) == 3
    assert isr_size_min_of(placed((1, 2, 3), adding=(3,)), 5) == 2
    assert not health_of(placed((1, 2, 3)), 5, Brokers(1, 2, 3)).is_under_min_isr


def test_the_last_leader_is_known_while_there_is_none() -> None:
    assert last_known_of(placed((1,))) == ()
    assert last_known_of(placed((), NO_LEADER)._replace(last_leader=2)) == (2,)
