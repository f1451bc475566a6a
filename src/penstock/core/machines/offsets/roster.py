"""The registry of groups and offsets on one partition of `__consumer_offsets`: group id → group of any type.

`apply` passes an event to its group and creates the group if needed. The groups decide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from penstock.core.machine import GroupKind, GroupMachine
from penstock.core.machines.offsets.offsets import OFFSET_EVENTS, Offsets

MakeGroup = Callable[[str], GroupMachine]


class Roster:
    """`kinds` maps each group type to its factory."""

    def __init__(self, kinds: Mapping[GroupKind, MakeGroup]) -> None:
        self._kinds = kinds
        self._groups: dict[str, GroupMachine] = {}
        self.offsets = Offsets()

    def find(self, group_id: str) -> GroupMachine | None:
        """The group. A group with offsets but without members' state counts as an empty classic group."""
        group = self._groups.get(group_id)
        if group is None and self.offsets.has_any(group_id):
            return self._kinds[GroupKind.CLASSIC](group_id)
        return group

    def find_or_make(self, group_id: str, kind: GroupKind) -> GroupMachine:
        """The group, or a new one of this type, which is registered when an event is applied to it."""
        return self.find(group_id) or self.make(group_id, kind)

    def make(self, group_id: str, kind: GroupKind) -> GroupMachine:
        """A new group of this type, which is registered when an event is applied to it."""
        return self._kinds[kind](group_id)

    @property
    def ids(self) -> list[str]:
        """All group ids, sorted."""
        return sorted(self._groups.keys() | set(self.offsets.group_ids))

    @property
    def groups(self) -> list[GroupMachine]:
        """The groups with state of their own, in order of creation."""
        return list(self._groups.values())

    def apply(self, event: Any) -> None:
        """Apply an event. An event of another type than its group's replaces the group, which changes its type."""
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
        """Remove a group without any state."""
        group = self._groups.get(group_id)
        if group is not None and group.is_vacant:
            del self._groups[group_id]
