"""The state of a classic group and its one writer, `apply`. Never decides; `group.py` does.

The persisted state (`saved`) is the last completed generation. The rest is volatile: who has joined the open round, who
waits for an assignment, when each session expires.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from copy import copy
from enum import StrEnum
from typing import Any

from penstock.core.errors import TornSegment
from penstock.core.machine import NEVER_MS, GroupKind
from penstock.core.machines.classic_group.values import (
    CONSUMERS,
    ClassicGroupMember,
    GroupRemoved,
    GroupSaved,
    JoinAwaited,
    MemberGone,
    MemberPut,
    MemberReplaced,
    PendingGone,
    PendingPut,
    Protocol,
    RoundClosed,
    RoundMoved,
    RoundOpened,
    SavedGroup,
    SavedMember,
    SyncAwaited,
    SyncMade,
    Touched,
    Woken,
)
from penstock.core.machines.overlay import Overlay
from penstock.core.machines.record_fields import FieldReader


class ClassicState(StrEnum):
    """The state of a group, by Kafka's names."""

    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


NEXT = frozenset(
    {
        (ClassicState.EMPTY, ClassicState.PREPARING),  # a round opens
        (ClassicState.COMPLETING, ClassicState.PREPARING),
        (ClassicState.STABLE, ClassicState.PREPARING),
        (ClassicState.PREPARING, ClassicState.COMPLETING),  # the round closes
        (ClassicState.PREPARING, ClassicState.EMPTY),  # no member is left
        (ClassicState.COMPLETING, ClassicState.STABLE),  # the leader assigns
        (ClassicState.EMPTY, ClassicState.DEAD),  # the group is removed
    }
)
"""Legal transitions; `Round.emit` checks every decision against them. `apply` does not: a replayed log skips states."""

_MAPPINGS = (
    "members",
    "statics",
    "pending",
    "deadlines",
    "joining",
    "syncing",
    "unsynced",
    "newcomers",
    "coming",
    "votes",
)


class GroupState:
    """The state of a group. Write through `apply` only."""

    kind = GroupKind.CLASSIC

    def __init__(self, group_id: str) -> None:
        self.id = group_id
        self.state = ClassicState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.saved: SavedGroup | None = None
        """The last persisted state."""
        self.topics: frozenset[str] | None = frozenset()
        """Topics that the members of the saved generation subscribe to; None if unknown."""
        self.members: MutableMapping[str, ClassicGroupMember] = {}
        self.statics: MutableMapping[str, str] = {}
        """Instance id → member id."""
        self.pending: MutableMapping[str, int] = {}
        """Assigned ids that have not joined yet → deadline."""
        self.coming: MutableMapping[str, int] = {}
        """The same ids → how long the first round waits for them."""
        self.deadlines: MutableMapping[str, int] = {}
        """Member → session deadline."""
        self.joining: MutableMapping[str, None] = {}
        """Members that have joined the open round."""
        self.syncing: MutableMapping[str, None] = {}
        """Members waiting for their assignment."""
        self.unsynced: MutableMapping[str, None] = {}
        """Members of this generation that have not fetched their assignment yet."""
        self.newcomers: MutableMapping[str, None] = {}
        """Members that have not been part of a generation yet."""
        self.votes: MutableMapping[str, int] = {}
        """Protocol → how many members support it."""
        self.round_deadline_ms = NEVER_MS
        self.round_is_initial = False
        self.round_opened_ms = 0
        self.round_limit_ms = NEVER_MS
        """The latest time at which the open round closes, even if members are still joining."""
        self.round_quiet_ms = 0
        """The end of the quiet period after the last new member of the first round."""
        self.sync_deadline_ms = NEVER_MS
        self.wake_ms = NEVER_MS
        """No deadline passes before this time."""

    def draft(self) -> GroupState:
        """A copy-on-write draft to apply events to. Its cost does not depend on the size of the group."""
        draft = copy(self)
        for name in _MAPPINGS:
            setattr(draft, name, Overlay(getattr(self, name)))
        return draft

    # -- writing

    def apply(self, event: Any) -> None:
        """Apply an event. Never fails."""
        _WRITERS[type(event)](self, event)

    def _due(self, deadline_ms: int) -> None:
        self.wake_ms = min(self.wake_ms, deadline_ms)

    def _member_put(self, event: MemberPut) -> None:
        member = event.member
        if not self.members:
            self.protocol_type = event.protocol_type
        old = self.members.get(member.id)
        self._count(old, member)
        self.members[member.id] = member
        if member.instance_id is not None:
            self.statics[member.instance_id] = member.id
        if event.is_new:
            self.newcomers[member.id] = None
        self._touch(member.id, event.deadline_ms)

    def _member_replaced(self, event: MemberReplaced) -> None:
        """The new member takes the old one's position in the order."""
        member, old_id = event.member, event.old_id
        old = self.members[old_id]
        self._count(old, member)
        self.members = {(member.id if key == old_id else key): one for key, one in self.members.items()}
        self.members[member.id] = member
        if member.instance_id is not None:
            self.statics[member.instance_id] = member.id
        if self.leader == old_id:
            self.leader = member.id
        self._forget(old_id)
        self._touch(member.id, event.deadline_ms)

    def _member_gone(self, event: MemberGone) -> None:
        member = self.members.pop(event.member_id, None)
        if member is None:
            return
        self._count(member, None)
        if member.instance_id is not None and self.statics.get(member.instance_id) == member.id:
            del self.statics[member.instance_id]
        self._forget(member.id)
        if self.leader == member.id:
            self.leader = next(iter(self.members), None)

    def _forget(self, member_id: str) -> None:
        for row in (self.deadlines, self.joining, self.syncing, self.unsynced, self.newcomers):
            row.pop(member_id, None)

    def _count(self, old: ClassicGroupMember | None, new: ClassicGroupMember | None) -> None:
        """Update the votes for a member's protocols."""
        for protocol in old.protocols if old is not None else ():
            left = self.votes[protocol.name] - 1
            if left:
                self.votes[protocol.name] = left
            else:
                del self.votes[protocol.name]
        for protocol in new.protocols if new is not None else ():
            self.votes[protocol.name] = self.votes.get(protocol.name, 0) + 1

    def _pending_put(self, event: PendingPut) -> None:
        self.pending[event.member_id] = event.deadline_ms
        self.coming[event.member_id] = event.coming_ms
        self._due(event.deadline_ms)

    def _pending_gone(self, event: PendingGone) -> None:
        self.pending.pop(event.member_id, None)
        self.coming.pop(event.member_id, None)

    def _touched(self, event: Touched) -> None:
        if event.member_id in self.members:
            self._touch(event.member_id, event.deadline_ms)

    def _touch(self, member_id: str, deadline_ms: int) -> None:
        self.deadlines[member_id] = deadline_ms
        self._due(deadline_ms)

    def _join_awaited(self, event: JoinAwaited) -> None:
        self.joining[event.member_id] = None

    def _sync_awaited(self, event: SyncAwaited) -> None:
        self.syncing[event.member_id] = None
        self.unsynced.pop(event.member_id, None)

    def _sync_made(self, event: SyncMade) -> None:
        self.unsynced.pop(event.member_id, None)

    def _round_opened(self, event: RoundOpened) -> None:
        self.state = ClassicState.PREPARING
        self.round_opened_ms = event.now_ms
        self.round_deadline_ms = self.round_limit_ms = event.deadline_ms
        self.round_is_initial = event.is_initial
        self._end_syncs()
        self._due(event.deadline_ms)

    def _end_syncs(self) -> None:
        self.syncing.clear()
        self.unsynced.clear()
        self.sync_deadline_ms = NEVER_MS

    def _round_moved(self, event: RoundMoved) -> None:
        self.round_quiet_ms = event.quiet_ms
        self.round_deadline_ms = event.deadline_ms
        self._due(event.deadline_ms)

    def _round_closed(self, event: RoundClosed) -> None:
        self.state = ClassicState.COMPLETING
        self.generation = event.generation
        self.protocol, self.leader = event.protocol, event.leader
        for member_id in list(self.joining):
            self.unsynced[member_id] = None
            self._touch(member_id, event.now_ms + self.members[member_id].session_ms)
        self._end_round()
        self.sync_deadline_ms = event.sync_deadline_ms
        self._due(event.sync_deadline_ms)

    def _end_round(self) -> None:
        self.joining.clear()
        self.newcomers.clear()
        self.round_deadline_ms = self.round_limit_ms = NEVER_MS
        self.round_is_initial = False
        self.round_opened_ms = self.round_quiet_ms = 0

    def _group_saved(self, event: GroupSaved) -> None:
        """Restore the persisted state. Members that are already present may have more protocols than were persisted."""
        saved = self.saved = event.saved
        self.state = ClassicState.STABLE if saved.members else ClassicState.EMPTY
        self.generation, self.protocol, self.leader = saved.generation, saved.protocol, saved.leader
        self.protocol_type = saved.protocol_type or None
        self.topics = _topics_of(saved)
        present = self.members
        self.members = {one.id: _live(one, present.get(one.id), saved.protocol) for one in saved.members}
        self.statics = {one.instance_id: one.id for one in saved.members if one.instance_id is not None}
        self.votes = {}
        for member in self.members.values():
            self._count(None, member)
        for row in (self.deadlines, self.unsynced):
            for member_id in [one for one in row if one not in self.members]:
                del row[member_id]
        self.syncing.clear()
        self._end_round()
        if not self.unsynced:
            self.sync_deadline_ms = NEVER_MS

    def _group_removed(self, event: GroupRemoved) -> None:
        GroupState.__init__(self, self.id)
        self.state = ClassicState.DEAD

    def _woken(self, event: Woken) -> None:
        self.wake_ms = event.wake_ms
        if event.syncs_are_done:
            self.sync_deadline_ms = NEVER_MS

    def snapshot(self, since_ms: int, assignments: dict[str, bytes] | None = None) -> SavedGroup:
        """The state to persist, with the given or the current assignments."""
        members = tuple(
            _saved_form(
                one, self.protocol, one.assignment if assignments is None else assignments.get(one.id, b"")
            )
            for one in self.members.values()
        )
        return SavedGroup(
            self.protocol_type or "", self.generation, self.protocol, self.leader, since_ms, members
        )


def _saved_form(member: ClassicGroupMember, protocol: str | None, assignment: bytes) -> SavedMember:
    return SavedMember(
        id=member.id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        rebalance_ms=member.rebalance_ms,
        session_ms=member.session_ms,
        subscription=member.metadata_for(protocol),
        assignment=assignment,
    )


def _live(saved: SavedMember, present: ClassicGroupMember | None, protocol: str | None) -> ClassicGroupMember:
    """The persisted member, or the present one if it differs only by more protocols."""
    if present is not None and _saved_form(present, protocol, saved.assignment) == saved:
        return present._replace(assignment=saved.assignment)
    protocols = (Protocol(protocol, saved.subscription),) if protocol is not None else ()
    return ClassicGroupMember(
        id=saved.id,
        instance_id=saved.instance_id,
        client_id=saved.client_id,
        client_host=saved.client_host,
        session_ms=saved.session_ms,
        rebalance_ms=saved.rebalance_ms,
        protocols=protocols,
        assignment=saved.assignment,
    )


def _topics_of(saved: SavedGroup) -> frozenset[str] | None:
    """The subscribed topics, if the members use the consumer format: a version, then a list of topics."""
    if saved.protocol_type != CONSUMERS:
        return None
    topics: set[str] = set()
    try:
        for member in saved.members:
            reader = FieldReader(member.subscription)
            reader.int16()
            topics.update(reader.text() for _ in range(reader.count()))
    except TornSegment:
        return None
    return frozenset(topics)


_WRITERS: dict[type, Any] = {
    GroupSaved: GroupState._group_saved,
    GroupRemoved: GroupState._group_removed,
    MemberPut: GroupState._member_put,
    MemberReplaced: GroupState._member_replaced,
    MemberGone: GroupState._member_gone,
    PendingPut: GroupState._pending_put,
    PendingGone: GroupState._pending_gone,
    Touched: GroupState._touched,
    JoinAwaited: GroupState._join_awaited,
    SyncAwaited: GroupState._sync_awaited,
    SyncMade: GroupState._sync_made,
    RoundOpened: GroupState._round_opened,
    RoundMoved: GroupState._round_moved,
    RoundClosed: GroupState._round_closed,
    Woken: GroupState._woken,
}
