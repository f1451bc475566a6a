"""Events compare as values of their type, not as the tuples that they are."""

from __future__ import annotations

from penstock.core.machine import GroupKind
from penstock.core.machines.classic_group.values import JoinAwaited, SyncAwaited
from penstock.core.machines.consumer_group.events import TopicsChecked


def test_events_of_different_types_with_equal_fields_differ() -> None:
    assert JoinAwaited("g", "m") == JoinAwaited("g", "m")
    assert JoinAwaited("g", "m") != SyncAwaited("g", "m")
    assert JoinAwaited("g", "m") != ("g", "m")
    assert len({JoinAwaited("g", "m"), JoinAwaited("g", "m"), SyncAwaited("g", "m")}) == 2


def test_events_of_a_group_have_its_kind() -> None:
    assert JoinAwaited("g", "m").kind is GroupKind.CLASSIC
    assert TopicsChecked("g", 1).kind is GroupKind.CONSUMER
