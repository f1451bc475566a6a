"""Value types of a classic group: members, commands, responses, events.

Two events are persisted: GroupSaved, the complete durable state of a group, and GroupRemoved. The others are volatile
changes between two saves.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.core.machine import GroupKind, group_event_type

JOIN, SYNC = "join", "sync"
"""What a member's call may wait for."""

CONSUMERS = "consumer"
"""The protocol type of consumers, whose metadata the broker can parse."""


class GroupLimits(NamedTuple):
    """Limits of a group."""

    session_ms_min: int
    session_ms_max: int
    initial_rebalance_ms: int
    initial_rebalance_static_ms: int
    size_max: int


class Protocol(NamedTuple):
    """One assignment protocol that a member supports, with its metadata."""

    name: str
    metadata: bytes


class ClassicGroupMember(NamedTuple):
    """One member. `protocols` in order of preference; after a restart only the selected one is known."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_ms: int
    rebalance_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes = b""

    def metadata_for(self, protocol: str | None) -> bytes:
        return next((one.metadata for one in self.protocols if one.name == protocol), b"")


class SavedMember(NamedTuple):
    """The persisted part of a member."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_ms: int
    session_ms: int
    subscription: bytes
    assignment: bytes


class SavedGroup(NamedTuple):
    """The persisted part of a group: its last completed generation. Without members it is empty since `since_ms`."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    since_ms: int
    members: tuple[SavedMember, ...]


# -- requests and responses


class JoinCommand(NamedTuple):
    """A member joins or rejoins. `fresh_id` is assigned if it has no id."""

    member_id: str
    fresh_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_ms: int
    rebalance_ms: int
    protocol_type: str
    protocols: tuple[Protocol, ...]
    needs_known_id: bool
    """A new dynamic member must join twice, so that a lost response leaves no orphaned member."""
    may_skip: bool
    """The client supports SkipAssignment."""


class SyncCommand(NamedTuple):
    """A member fetches its assignment; the leader provides all of them."""

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: dict[str, bytes]


class LeaveCommand(NamedTuple):
    """One member to remove, by its id or by its instance id alone."""

    member_id: str
    instance_id: str | None


class JoinedMember(NamedTuple):
    """A member in the leader's join response."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(NamedTuple):
    """The join response. Only the leader gets the member list."""

    member_id: str
    generation: int
    protocol_type: str
    protocol: str
    leader: str
    members: tuple[JoinedMember, ...]
    skip_assignment: bool = False


class Assigned(NamedTuple):
    """The sync response."""

    protocol_type: str
    protocol: str
    assignment: bytes


# -- events


_classic_event = group_event_type(GroupKind.CLASSIC)


@_classic_event
class GroupSaved(NamedTuple):
    """A generation was completed, or the group became empty; carries its new state. Persisted."""

    group_id: str
    saved: SavedGroup


@_classic_event
class GroupRemoved(NamedTuple):
    """The group was deleted. Persisted."""

    group_id: str


@_classic_event
class MemberPut(NamedTuple):
    """A member joined or changed its metadata."""

    group_id: str
    member: ClassicGroupMember
    protocol_type: str
    deadline_ms: int
    is_new: bool


@_classic_event
class MemberReplaced(NamedTuple):
    """A static member returned under another id and replaces the old one."""

    group_id: str
    old_id: str
    member: ClassicGroupMember
    deadline_ms: int


@_classic_event
class MemberGone(NamedTuple):
    """A member left, was removed, or its session expired."""

    group_id: str
    member_id: str


@_classic_event
class PendingPut(NamedTuple):
    """An id was assigned; its member must join before the deadline. A first round waits for it until `coming_ms`."""

    group_id: str
    member_id: str
    deadline_ms: int
    coming_ms: int


@_classic_event
class PendingGone(NamedTuple):
    """The id was used or expired."""

    group_id: str
    member_id: str


@_classic_event
class Touched(NamedTuple):
    """A member's session was renewed."""

    group_id: str
    member_id: str
    deadline_ms: int


@_classic_event
class JoinAwaited(NamedTuple):
    """A member joined the round and waits for it to close."""

    group_id: str
    member_id: str


@_classic_event
class SyncAwaited(NamedTuple):
    """A member waits for its assignment."""

    group_id: str
    member_id: str


@_classic_event
class SyncMade(NamedTuple):
    """A member has fetched its assignment."""

    group_id: str
    member_id: str


@_classic_event
class RoundOpened(NamedTuple):
    """All members must rejoin before the deadline. The first round of an empty group collects members."""

    group_id: str
    now_ms: int
    deadline_ms: int
    is_initial: bool


@_classic_event
class RoundMoved(NamedTuple):
    """The end of a group's first round was rescheduled, because members joined or are expected."""

    group_id: str
    quiet_ms: int
    deadline_ms: int


@_classic_event
class RoundClosed(NamedTuple):
    """A new generation begins; its leader must provide the assignment before the deadline."""

    group_id: str
    generation: int
    protocol: str
    leader: str
    now_ms: int
    sync_deadline_ms: int


@_classic_event
class Woken(NamedTuple):
    """Deadlines were checked; none passes before this time."""

    group_id: str
    wake_ms: int
    syncs_are_done: bool
