"""Value types of a classic group: members, commands, responses, events.

Two events are persisted: GroupSaved, the complete durable state of a group, and GroupRemoved. The others are volatile
changes between two saves.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from penstock.core.machine import GroupKind

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


@dataclass(frozen=True, slots=True)
class ClassicGroupMember:
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


@dataclass(frozen=True, slots=True)
class SavedMember:
    """The persisted part of a member."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_ms: int
    session_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True)
class SavedGroup:
    """The persisted part of a group: its last completed generation. Without members it is empty since `since_ms`."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    since_ms: int
    members: tuple[SavedMember, ...]


# -- requests and responses


@dataclass(frozen=True, slots=True)
class JoinCommand:
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


@dataclass(frozen=True, slots=True)
class SyncCommand:
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


class _Classic:
    """Events of classic groups."""

    __slots__ = ()
    kind: ClassVar[GroupKind] = GroupKind.CLASSIC


@dataclass(frozen=True, slots=True)
class GroupSaved(_Classic):
    """A generation was completed, or the group became empty; carries its new state. Persisted."""

    group_id: str
    saved: SavedGroup


@dataclass(frozen=True, slots=True)
class GroupRemoved(_Classic):
    """The group was deleted. Persisted."""

    group_id: str


@dataclass(frozen=True, slots=True)
class MemberPut(_Classic):
    """A member joined or changed its metadata."""

    group_id: str
    member: ClassicGroupMember
    protocol_type: str
    deadline_ms: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class MemberReplaced(_Classic):
    """A static member returned under another id and replaces the old one."""

    group_id: str
    old_id: str
    member: ClassicGroupMember
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class MemberGone(_Classic):
    """A member left, was removed, or its session expired."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class PendingPut(_Classic):
    """An id was assigned; its member must join before the deadline. A first round waits for it until `coming_ms`."""

    group_id: str
    member_id: str
    deadline_ms: int
    coming_ms: int


@dataclass(frozen=True, slots=True)
class PendingGone(_Classic):
    """The id was used or expired."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class Touched(_Classic):
    """A member's session was renewed."""

    group_id: str
    member_id: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class JoinAwaited(_Classic):
    """A member joined the round and waits for it to close."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class SyncAwaited(_Classic):
    """A member waits for its assignment."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class SyncMade(_Classic):
    """A member has fetched its assignment."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class RoundOpened(_Classic):
    """All members must rejoin before the deadline. The first round of an empty group collects members."""

    group_id: str
    now_ms: int
    deadline_ms: int
    is_initial: bool


@dataclass(frozen=True, slots=True)
class RoundMoved(_Classic):
    """The end of a group's first round was rescheduled, because members joined or are expected."""

    group_id: str
    quiet_ms: int
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class RoundClosed(_Classic):
    """A new generation begins; its leader must provide the assignment before the deadline."""

    group_id: str
    generation: int
    protocol: str
    leader: str
    now_ms: int
    sync_deadline_ms: int


@dataclass(frozen=True, slots=True)
class Woken(_Classic):
    """Deadlines were checked; none passes before this time."""

    group_id: str
    wake_ms: int
    syncs_are_done: bool


KEPT_EVENTS = (GroupSaved, GroupRemoved)
