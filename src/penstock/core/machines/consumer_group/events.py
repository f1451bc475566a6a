"""What a consumer group of the new protocol is made of, and what happens to it. Values only: decides and keeps nothing.

Every event that is kept carries the full value of one key, None meaning that it is gone, so that a compacted topic is
enough to come back to where the group stood. `SessionRenewed`, `RevocationDue`, `TopicsChecked` and `ConsumerGroupWoken`
end with the node.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import ClassVar

from penstock.core.machine import GroupKind
from penstock.core.machines.consumer_group.assignors import Assignment

JOIN_EPOCH = 0
"""A member that sends this epoch wants in."""

LEAVE_EPOCH = -1
"""A member that sends this epoch goes for good."""

PAUSE_EPOCH = -2
"""A static member that sends this epoch goes, but wants to find its partitions again when it comes back in time."""


class MemberState(IntEnum):
    """How far a member is from its target; the numbers are Kafka's."""

    STABLE = 0
    UNREVOKED = 1
    """It must first give up partitions, and say so."""
    UNRELEASED = 2
    """Some of its partitions are still with another member."""


@dataclass(frozen=True, slots=True)
class ClassicMetadata:
    """What a member that speaks the classic protocol brought along: it takes part without knowing of epochs."""

    session_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMember:
    """What a member says of itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    topic_regex: str | None = None
    rebalance_ms: int = -1
    assignor: str | None = None
    classic: ClassicMetadata | None = None


@dataclass(frozen=True, slots=True)
class CurrentAssignment:
    """Where a member stands: its epoch, what it holds, and what it was asked to give up but has not yet."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Assignment
    revoking: Assignment


@dataclass(frozen=True, slots=True)
class GroupEpoch:
    """Where the group stands: its epoch goes up with every change of members, subscriptions or topics."""

    epoch: int
    topics_hash: int


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression stood for, with the version of the catalog and the time it was looked at."""

    topics: tuple[str, ...]
    version: int
    wall_ms: int


class _ConsumerGroupEvent:
    """Events of consumer groups."""

    __slots__ = ()
    kind: ClassVar[GroupKind] = GroupKind.CONSUMER


@dataclass(frozen=True, slots=True)
class GroupEpochSet(_ConsumerGroupEvent):
    group_id: str
    value: GroupEpoch | None


@dataclass(frozen=True, slots=True)
class MemberSet(_ConsumerGroupEvent):
    group_id: str
    member_id: str
    value: ConsumerGroupMember | None


@dataclass(frozen=True, slots=True)
class TargetEpochSet(_ConsumerGroupEvent):
    """The targets now are those worked out for this epoch."""

    group_id: str
    value: int | None


@dataclass(frozen=True, slots=True)
class TargetSet(_ConsumerGroupEvent):
    group_id: str
    member_id: str
    value: Assignment | None


@dataclass(frozen=True, slots=True)
class CurrentAssignmentSet(_ConsumerGroupEvent):
    group_id: str
    member_id: str
    value: CurrentAssignment | None


@dataclass(frozen=True, slots=True)
class RegexSet(_ConsumerGroupEvent):
    group_id: str
    regex: str
    value: ResolvedRegex | None


@dataclass(frozen=True, slots=True)
class SessionRenewed(_ConsumerGroupEvent):
    """A member showed that it lives; it is gone if it does not again before the deadline. Not kept."""

    group_id: str
    member_id: str
    deadline_ms: int


@dataclass(frozen=True, slots=True)
class RevocationDue(_ConsumerGroupEvent):
    """By when a member must have given up what it was asked to; None: nothing is asked of it. Not kept."""

    group_id: str
    member_id: str
    deadline_ms: int | None


@dataclass(frozen=True, slots=True)
class TopicsChecked(_ConsumerGroupEvent):
    """The group's topics were compared with this version of the catalog. Not kept."""

    group_id: str
    version: int


@dataclass(frozen=True, slots=True)
class ConsumerGroupWoken(_ConsumerGroupEvent):
    """The group was looked over; nothing more is due before this time. Not kept."""

    group_id: str
    wake_ms: int


Event = (
    GroupEpochSet
    | MemberSet
    | TargetEpochSet
    | TargetSet
    | CurrentAssignmentSet
    | RegexSet
    | SessionRenewed
    | RevocationDue
    | TopicsChecked
    | ConsumerGroupWoken
)


def held_by(current: CurrentAssignment) -> list[tuple[bytes, int]]:
    """Every partition that nobody else may have yet, because this member has it or has not let go of it."""
    return [*partitions_of(current.assigned), *partitions_of(current.revoking)]


def partitions_of(assignment: Assignment) -> list[tuple[bytes, int]]:
    return [
        (topic, partition) for topic, partitions in assignment.items() for partition in sorted(partitions)
    ]


def assignment_of(partitions: Mapping[bytes, set[int]]) -> Assignment:
    """An assignment that names no topic without partitions."""
    return {topic: frozenset(some) for topic, some in partitions.items() if some}
