"""The vocabulary of a classic group: members, commands, answers, events. Values only, never behaviour.

Two events are kept: GroupSaved, the whole durable state of a group, and GroupRemoved. The others are volatile: they say
what goes on between two saves and end with the node.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from penstock.core.machine import GroupKind

JOIN, SYNC = "join", "sync"
"""What a call of a member may wait for."""

CONSUMERS = "consumer"
"""The protocol type of groups whose members read topics: the one whose metadata may be looked into."""


class GroupLimits(NamedTuple):
    """What a group may ask for."""

    session_ms_min: int
    session_ms_max: int
    initial_rebalance_ms: int
    initial_rebalance_static_ms: int
    size_max: int


class Protocol(NamedTuple):
    """One way to assign that a member knows, and what it says about itself in it."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class ClassicGroupMember:
    """One member. `protocols` in the order of its preference; after a restart only the chosen one is known."""

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
    """What is kept of a member."""

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
    """What is kept of a group: its last generation that was agreed on. No members: it is empty since `since_ms`."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    since_ms: int
    members: tuple[SavedMember, ...]


# -- what members ask, and what they are told


@dataclass(frozen=True, slots=True)
class JoinCommand:
    """A member wants in, or back in. `fresh_id` is the id that it gets if it has none."""

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
    """A new dynamic member must come twice: so an answer that got lost leaves no ghost."""
    may_skip: bool
    """It understands "you lead, but the assignment stands"."""


@dataclass(frozen=True, slots=True)
class SyncCommand:
    """A member wants its assignment; the leader brings everybody's."""

    member_id: str
    instance_id: str | None
    generation: int
    protocol_type: str | None
    protocol: str | None
    assignments: dict[str, bytes]


class LeaveCommand(NamedTuple):
    """One member to go: by its id, or by its instance id alone."""

    member_id: str
    instance_id: str | None


class JoinedMember(NamedTuple):
    """One member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class Joined(NamedTuple):
    """The answer to a join: the member is part of this generation. Only the leader is told of the others."""

    member_id: str
    generation: int
    protocol_type: str
    protocol: str
    leader: str
    members: tuple[JoinedMember, ...]
    skip_assignment: bool = False


class Assigned(NamedTuple):
    """The answer to a sync."""

    protocol_type: str
    protocol: str
    assignment: bytes


# -- what happens


class _Classic:
    """All events here happen to classic groups."""

    __slots__ = ()
    kind: ClassVar[GroupKind] = GroupKind.CLASSIC


@dataclass(frozen=True, slots=True)
class GroupSaved(_Classic):
    """A generation was agreed on, or the group became empty; this is what it is now. Kept."""

    group_id: str
    saved: SavedGroup


@dataclass(frozen=True, slots=True)
class GroupRemoved(_Classic):
    """The group is gone. Kept."""

    group_id: str


@dataclass(frozen=True, slots=True)
class MemberPut(_Classic):
    """A member came in, or changed what it says about itself."""

    group_id: str
    member: ClassicGroupMember
    protocol_type: str
    deadline_ms: int
    is_new: bool


@dataclass(frozen=True, slots=True)
class MemberReplaced(_Classic):
    """A static member came back under another id and takes over its place."""

    group_id: str
    old_id: str
    member: ClassicGroupMember
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class MemberGone(_Classic):
    """A member left, was dropped, or fell silent."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class PendingPut(_Classic):
    """An id was given out; its member has until then to join with it. A first round waits for it until `coming_ms`."""

    group_id: str
    member_id: str
    deadline_ms: int
    coming_ms: int


@dataclass(frozen=True, slots=True)
class PendingGone(_Classic):
    """That id is used or forgotten."""

    group_id: str
    member_id: str


@dataclass(frozen=True, slots=True)
class Touched(_Classic):
    """A member showed that it lives."""

    group_id: str
    member_id: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class JoinAwaited(_Classic):
    """A member has joined the round and waits for it to close."""

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
    """Everybody is to join again until the deadline. The first round of an empty group gathers members meanwhile."""

    group_id: str
    now_ms: int
    deadline_ms: int
    is_initial: bool


@dataclass(frozen=True, slots=True)
class RoundMoved(_Classic):
    """When the first round of a group closes: earlier or later than was planned, because of who came or is coming."""

    group_id: str
    quiet_ms: int
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class RoundClosed(_Classic):
    """A new generation begins; its leader has until the deadline to bring the assignment."""

    group_id: str
    generation: int
    protocol: str
    leader: str
    now_ms: int
    sync_deadline_ms: int


@dataclass(frozen=True, slots=True)
class Woken(_Classic):
    """The group was looked over; nothing more is due before this time."""

    group_id: str
    wake_ms: int
    syncs_are_done: bool


KEPT_EVENTS = (GroupSaved, GroupRemoved)
