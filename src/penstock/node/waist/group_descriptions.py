"""Descriptions of groups as values, for tools. Read from a machine in one step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from penstock.core.errors import InconsistentProtocol, UnknownTopicId
from penstock.core.machine import GroupKind, GroupMachine
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.classic_group.group import Group
from penstock.core.machines.classic_group.state import ClassicState
from penstock.core.machines.consumer_group.assignors import Assignment
from penstock.core.machines.consumer_group.events import ConsumerGroupMember
from penstock.core.machines.consumer_group.group import ConsumerGroup
from penstock.core.machines.consumer_group.protocol import decode_assignment
from penstock.core.machines.consumer_group.targets import preferred_assignor


class ClassicMember(NamedTuple):
    """A member of a classic group. Metadata and assignment are empty unless the group is stable."""

    id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class ClassicGroupDescription(NamedTuple):
    """A group with client-side assignment."""

    group_id: str
    state_name: str
    protocol_type: str
    protocol: str
    members: list[ClassicMember]


class AssignedTopic(NamedTuple):
    """Partitions of one topic."""

    topic_id: bytes
    name: str
    partitions: list[int]


class ConsumerMember(NamedTuple):
    """A member of a consumer group with its subscription, current and target assignment."""

    id: str
    instance_id: str | None
    rack_id: str | None
    epoch: int
    client_id: str
    client_host: str
    topic_names: list[str]
    topic_regex: str | None
    assigned: list[AssignedTopic]
    target: list[AssignedTopic]
    is_classic: bool
    """Uses the classic protocol."""


class ConsumerGroupDescription(NamedTuple):
    """A group with server-side assignment."""

    group_id: str
    state_name: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: list[ConsumerMember]

    @property
    def topics(self) -> set[str]:
        """Every topic in a current or target assignment."""
        return {
            topic.name
            for member in self.members
            for topics in (member.assigned, member.target)
            for topic in topics
        }


class MemberOutline(NamedTuple):
    """A member of a group of any kind."""

    id: str
    client_id: str
    client_host: str
    assigned: Mapping[str, frozenset[int]]
    """Partitions by topic name."""


class GroupOutline(NamedTuple):
    """A group of any kind."""

    group_id: str
    kind: GroupKind
    state_name: str
    members: Iterator[MemberOutline]
    """Lazily read; a member that leaves meanwhile is shown with its last known state."""


def describe_classic(group: Group) -> ClassicGroupDescription:
    """Metadata and assignments are shown only while the group is stable."""
    is_stable = group.state is ClassicState.STABLE
    members = [
        ClassicMember(
            one.id,
            one.instance_id,
            one.client_id,
            one.client_host,
            one.metadata_for(group.protocol) if is_stable else b"",
            one.assignment if is_stable else b"",
        )
        for one in group.members.values()
    ]
    protocol = (group.protocol or "") if is_stable else ""
    return ClassicGroupDescription(group.id, group.state_name, group.protocol_type or "", protocol, members)


def describe_consumer(group: ConsumerGroup, catalog: Catalog) -> ConsumerGroupDescription:
    members = [_consumer_member(group, catalog, *one) for one in sorted(group.members.items())]
    assignor = preferred_assignor(group)
    return ConsumerGroupDescription(
        group.id, group.state_name, group.epoch, group.target_epoch, assignor, members
    )


def outline(group: GroupMachine, catalog: Catalog) -> GroupOutline:
    return GroupOutline(group.id, group.kind, group.state_name, _member_outlines(group, catalog))


def _consumer_member(
    group: ConsumerGroup, catalog: Catalog, member_id: str, member: ConsumerGroupMember
) -> ConsumerMember:
    current = group.current_assignment(member_id)
    return ConsumerMember(
        member_id,
        member.instance_id,
        member.rack_id,
        current.epoch,
        member.client_id,
        member.client_host,
        list(member.topic_names),
        member.topic_regex,
        assigned_topics(current.assigned, catalog),
        assigned_topics(group.target(member_id), catalog),
        member.classic is not None,
    )


def assigned_topics(assignment: Assignment, catalog: Catalog) -> list[AssignedTopic]:
    """An assignment with topic names; topics deleted meanwhile are left out."""
    found = []
    for topic_id in sorted(assignment):
        try:
            name = catalog.topic_by_id(topic_id).name
        except UnknownTopicId:
            continue
        found.append(AssignedTopic(topic_id, name, sorted(assignment[topic_id])))
    return found


def _member_outlines(group: GroupMachine, catalog: Catalog) -> Iterator[MemberOutline]:
    if isinstance(group, ConsumerGroup):
        current_assignments = [
            (one, member, group.current_assignment(one)) for one, member in sorted(group.members.items())
        ]
        for one, member, current in current_assignments:
            topics = assigned_topics(current.assigned, catalog)
            assigned = {topic.name: frozenset(topic.partitions) for topic in topics}
            yield MemberOutline(one, member.client_id, member.client_host, assigned)
    elif isinstance(group, Group):
        for classic in list(group.members.values()):
            yield classic_outline(classic.id, classic.client_id, classic.client_host, classic.assignment)


def classic_outline(member_id: str, client_id: str, client_host: str, assignment: bytes) -> MemberOutline:
    """A member of a classic group."""
    return MemberOutline(member_id, client_id, client_host, _decoded(assignment))


def _decoded(raw: bytes) -> Mapping[str, frozenset[int]]:
    """The assignment of a classic member; empty if the members are not consumers and use their own format."""
    try:
        return decode_assignment(raw)
    except InconsistentProtocol:
        return {}
