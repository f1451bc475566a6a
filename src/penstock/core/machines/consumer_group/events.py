"""Values and events of a consumer group of the KIP-848 protocol. Decides nothing; `group.py` does.

Every persisted event carries the full value of one key (None: deleted), so that a compacted topic is enough to restore
the group. `SessionRenewed`, `RevocationDue`, `TopicsChecked` and `ConsumerGroupWoken` are not persisted.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from penstock.core.machine import GroupKind, group_event_type
from penstock.core.machines.consumer_group.assignors import Assignment

JOIN_EPOCH = 0
"""Sent by a member that joins."""

LEAVE_EPOCH = -1
"""Sent by a member that leaves."""

PAUSE_EPOCH = -2
"""Sent by a static member that leaves temporarily and keeps its partitions if it returns in time."""


class MemberState(IntEnum):
    """A member's progress towards its target; numbers as in Kafka."""

    STABLE = 0
    UNREVOKED = 1
    """It must revoke partitions and acknowledge that."""
    UNRELEASED = 2
    """Another member still owns some of its target partitions."""


class ClassicMetadata(NamedTuple):
    """Session timeout and protocols of a member that uses the classic protocol, which has no member epochs."""

    session_ms: int
    protocols: tuple[tuple[str, bytes], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupMember:
    """A member's metadata and subscription."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topic_names: tuple[str, ...] = ()
    topic_regex: str | None = None
    rebalance_ms: int = -1
    assignor: str | None = None
    classic: ClassicMetadata | None = None


class CurrentAssignment(NamedTuple):
    """A member's epoch, assigned partitions, and partitions whose revocation is pending."""

    epoch: int
    previous_epoch: int
    state: MemberState
    assigned: Assignment
    revoking: Assignment


class GroupEpoch(NamedTuple):
    """The group's epoch, which every change of members, subscriptions or topics bumps."""

    epoch: int
    topics_hash: int


class ResolvedRegex(NamedTuple):
    """The topics that a regular expression matched, with the catalog version and time of the evaluation."""

    topics: tuple[str, ...]
    version: int
    wall_ms: int


_consumer_event = group_event_type(GroupKind.CONSUMER)


@_consumer_event
class GroupEpochSet(NamedTuple):
    group_id: str
    value: GroupEpoch | None


@_consumer_event
class MemberSet(NamedTuple):
    group_id: str
    member_id: str
    value: ConsumerGroupMember | None


@_consumer_event
class TargetEpochSet(NamedTuple):
    """The current targets were computed for this epoch."""

    group_id: str
    value: int | None


@_consumer_event
class TargetSet(NamedTuple):
    group_id: str
    member_id: str
    value: Assignment | None


@_consumer_event
class CurrentAssignmentSet(NamedTuple):
    group_id: str
    member_id: str
    value: CurrentAssignment | None


@_consumer_event
class RegexSet(NamedTuple):
    group_id: str
    regex: str
    value: ResolvedRegex | None


@_consumer_event
class SessionRenewed(NamedTuple):
    """A member's session was extended to the deadline. Not persisted."""

    group_id: str
    member_id: str
    deadline_ms: int


@_consumer_event
class RevocationDue(NamedTuple):
    """The deadline of a pending revocation; None if there is none. Not persisted."""

    group_id: str
    member_id: str
    deadline_ms: int | None


@_consumer_event
class TopicsChecked(NamedTuple):
    """The group's topics were compared with this catalog version. Not persisted."""

    group_id: str
    version: int


@_consumer_event
class ConsumerGroupWoken(NamedTuple):
    """Deadlines were checked; none passes before this time. Not persisted."""

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
    """The partitions that this member owns or has not revoked yet, which no other member may get."""
    return [*partitions_of(current.assigned), *partitions_of(current.revoking)]


def partitions_of(assignment: Assignment) -> list[tuple[bytes, int]]:
    return [
        (topic, partition) for topic, partitions in assignment.items() for partition in sorted(partitions)
    ]


def assignment_of(partitions: Mapping[bytes, set[int]]) -> Assignment:
    """The assignment without empty topics."""
    return {topic: frozenset(some) for topic, some in partitions.items() if some}
