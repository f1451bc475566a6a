"""The registry of groups on one partition of the groups' topic: group id → group, of whatever kind, and their offsets.

A machine of machines: `apply` hands an event to its group and makes the group if need be. Never decides anything.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.core.machine import GroupKind, GroupMachine
from penstock.core.machines.offsets.offsets import OFFSET_EVENTS, Offsets

MakeGroup = Callable[[str], GroupMachine]


class Roster:
    """`kinds` says how a group of each kind is made, given its id."""

    def __init__(self, kinds: Mapping[GroupKind, MakeGroup]) -> None:
        self._kinds = kinds
        self._groups: dict[str, GroupMachine] = {}
        self.offsets = Offsets()

    def find(self, group_id: str) -> GroupMachine | None:
        """The group; one that has only ever had offsets committed from outside counts as an empty classic group."""
        group = self._groups.get(group_id)
        if group is None and self.offsets.has_any(group_id):
            return self._kinds[GroupKind.CLASSIC](group_id)
        return group

    def find_or_make(self, group_id: str, kind: GroupKind) -> GroupMachine:
        """The group, or a new one of this kind that is not registered until an event is applied to it."""
        return self.find(group_id) or self.make(group_id, kind)

    def make(self, group_id: str, kind: GroupKind) -> GroupMachine:
        """A new group of this kind, not registered until an event is applied to it."""
        return self._kinds[kind](group_id)

    @property
    def ids(self) -> list[str]:
        """Every group there is, sorted."""
        return sorted(self._groups.keys() | set(self.offsets.group_ids))

    @property
    def groups(self) -> list[GroupMachine]:
        """The groups that have a state of their own, in the order in which they came."""
        return list(self._groups.values())

    def apply(self, event: Any) -> None:
        """Write what happened. An event of another kind than its group's replaces the group: so kinds change."""
        if isinstance(event, OFFSET_EVENTS):
            self.offsets.apply(event)
            return
        group = self._groups.get(event.group_id)
        if group is None or group.kind is not event.kind:
            group = self._groups[event.group_id] = self._kinds[event.kind](event.group_id)
        group.apply(event)
        if group.is_dead:
            del self._groups[event.group_id]

    def sweep(self, group_id: str) -> None:
        """Forget a group that holds nothing worth keeping."""
        group = self._groups.get(group_id)
        if group is not None and group.is_vacant:
            del self._groups[group_id]
