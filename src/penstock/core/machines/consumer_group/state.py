"""The state of a consumer group and its only writer, `apply`. `group.py` decides.

Metadata, current assignment and target of each member are separate, as in the log. The owners of partitions and the
members by instance id derive from them.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from copy import copy
from typing import Any

from penstock.core.machine import NEVER_MS
from penstock.core.machines.consumer_group.assignors import NOTHING, Assignment
from penstock.core.machines.consumer_group.events import (
    ConsumerGroupMember,
    ConsumerGroupWoken,
    CurrentAssignment,
    CurrentAssignmentSet,
    GroupEpoch,
    GroupEpochSet,
    MemberSet,
    MemberState,
    RegexSet,
    ResolvedRegex,
    RevocationDue,
    SessionRenewed,
    TargetEpochSet,
    TargetSet,
    TopicsChecked,
    held_by,
)
from penstock.core.machines.overlay import Overlay

NOT_CHECKED = -1
"""The group's topics were not compared with the catalog since the last start."""

UNKNOWN_HASH = 0
"""The group's topics must be resolved before the next assignment."""

NEWCOMER = CurrentAssignment(epoch=0, previous_epoch=-1, state=MemberState.STABLE, assigned={}, revoking={})
"""The state of a new member."""

_MAPPINGS = (
    "members",
    "targets",
    "current_assignments",
    "regexes",
    "holders",
    "instances",
    "topic_readers",
    "deadlines",
    "revocations",
)


class ConsumerGroupState:
    """The state of a group. Write through `apply` only."""

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.group_epoch: GroupEpoch | None = None
        self.target_epoch = 0
        self.members: MutableMapping[str, ConsumerGroupMember] = {}
        self.targets: MutableMapping[str, Assignment] = {}
        self.current_assignments: MutableMapping[str, CurrentAssignment] = {}
        self.regexes: MutableMapping[str, ResolvedRegex] = {}
        self.holders: MutableMapping[tuple[bytes, int], str] = {}
        """Partition → the member that owns it or has not revoked it yet."""
        self.instances: MutableMapping[str, str] = {}
        """Instance id → member id."""
        self.topic_readers: MutableMapping[str, int] = {}
        """Topic → how many members subscribe to it by name."""
        self.deadlines: MutableMapping[str, int] = {}
        """Member → session deadline."""
        self.revocations: MutableMapping[str, int] = {}
        """Member → deadline of its pending revocation."""
        self.checked_version = NOT_CHECKED
        self.wake_ms = NEVER_MS
        """No deadline passes before this time."""

    def draft(self) -> ConsumerGroupState:
        """A copy-on-write draft to apply events to. Its cost does not depend on the size of the group."""
        draft = copy(self)
        for name in _MAPPINGS:
            setattr(draft, name, Overlay(getattr(self, name)))
        return draft

    # -- reading

    @property
    def epoch(self) -> int:
        return self.group_epoch.epoch if self.group_epoch is not None else 0

    @property
    def has_no_state(self) -> bool:
        """Whether no state of the group is left."""
        return self.group_epoch is None and not (
            self.members or self.current_assignments or self.targets or self.regexes
        )

    def current_assignment(self, member_id: str) -> CurrentAssignment:
        return self.current_assignments.get(member_id, NEWCOMER)

    def target(self, member_id: str) -> Assignment:
        return self.targets.get(member_id, NOTHING)

    def is_free_for(self, member_id: str, topic: bytes, partition: int) -> bool:
        return self.holders.get((topic, partition), member_id) == member_id

    def reads(self, topic: str) -> bool:
        """Whether a member subscribes to this topic, by name or by regular expression."""
        return topic in self.topic_readers or any(topic in found.topics for found in self.regexes.values())

    # -- writing

    def apply(self, event: Any) -> None:
        """Apply an event. Never fails."""
        _WRITERS[type(event)](self, event)

    def _set_group_epoch(self, event: GroupEpochSet) -> None:
        self.group_epoch = event.value

    def _set_member(self, event: MemberSet) -> None:
        old = self.members.get(event.member_id)
        if old is not None:
            self._count_topics(old, -1)
            if old.instance_id is not None and self.instances.get(old.instance_id) == event.member_id:
                del self.instances[old.instance_id]
        if event.value is None:
            for row in (self.members, self.deadlines, self.revocations):
                row.pop(event.member_id, None)
            return
        self.members[event.member_id] = event.value
        self._count_topics(event.value, 1)
        if event.value.instance_id is not None:
            self.instances[event.value.instance_id] = event.member_id

    def _count_topics(self, member: ConsumerGroupMember, change: int) -> None:
        for topic in member.topic_names:
            count = self.topic_readers.get(topic, 0) + change
            if count:
                self.topic_readers[topic] = count
            else:
                del self.topic_readers[topic]

    def _set_target_epoch(self, event: TargetEpochSet) -> None:
        self.target_epoch = event.value or 0

    def _set_target(self, event: TargetSet) -> None:
        _put(self.targets, event.member_id, event.value)

    def _set_current_assignment(self, event: CurrentAssignmentSet) -> None:
        old = self.current_assignments.get(event.member_id)
        if old is not None:
            for place in held_by(old):
                if self.holders.get(place) == event.member_id:
                    del self.holders[place]
        _put(self.current_assignments, event.member_id, event.value)
        if event.value is not None:
            for place in held_by(event.value):
                self.holders[place] = event.member_id

    def _set_regex(self, event: RegexSet) -> None:
        _put(self.regexes, event.regex, event.value)

    def _renew_session(self, event: SessionRenewed) -> None:
        if event.member_id in self.members:
            self.deadlines[event.member_id] = event.deadline_ms
            self._due(event.deadline_ms)

    def _set_revocation(self, event: RevocationDue) -> None:
        if event.member_id in self.members:
            _put(self.revocations, event.member_id, event.deadline_ms)
            self._due(NEVER_MS if event.deadline_ms is None else event.deadline_ms)

    def _due(self, deadline_ms: int) -> None:
        self.wake_ms = min(self.wake_ms, deadline_ms)

    def _check_topics(self, event: TopicsChecked) -> None:
        self.checked_version = event.version

    def _wake(self, event: ConsumerGroupWoken) -> None:
        self.wake_ms = event.wake_ms


def _put(row: MutableMapping[str, Any], key: str, value: Any) -> None:
    if value is None:
        row.pop(key, None)
    else:
        row[key] = value


_WRITERS: dict[type, Any] = {
    GroupEpochSet: ConsumerGroupState._set_group_epoch,
    MemberSet: ConsumerGroupState._set_member,
    TargetEpochSet: ConsumerGroupState._set_target_epoch,
    TargetSet: ConsumerGroupState._set_target,
    CurrentAssignmentSet: ConsumerGroupState._set_current_assignment,
    RegexSet: ConsumerGroupState._set_regex,
    SessionRenewed: ConsumerGroupState._renew_session,
    RevocationDue: ConsumerGroupState._set_revocation,
    TopicsChecked: ConsumerGroupState._check_topics,
    ConsumerGroupWoken: ConsumerGroupState._wake,
}
