"""Converts a classic group to a consumer group when the first member of the new protocol joins. Pure.

Members keep their partitions and their generation, which becomes their epoch, and continue to use the classic protocol
unaware of the change (see `classic_members`). Groups of another protocol type are rejected.
"""

from __future__ import annotations

from typing import Any

from penstock.core.errors import BrokerError, InconsistentProtocol, Rebalancing, UnknownGroup
from penstock.core.machine import Decision, Moment, Waiter
from penstock.core.machines.classic_group.group import Group
from penstock.core.machines.classic_group.values import (
    CONSUMERS,
    JOIN,
    SYNC,
    ClassicGroupMember,
    GroupRemoved,
)
from penstock.core.machines.consumer_group.assignors import Assignment
from penstock.core.machines.consumer_group.events import (
    ClassicMetadata,
    ConsumerGroupMember,
    CurrentAssignment,
    CurrentAssignmentSet,
    GroupEpoch,
    GroupEpochSet,
    MemberSet,
    MemberState,
    SessionRenewed,
    TargetEpochSet,
    TargetSet,
)
from penstock.core.machines.consumer_group.protocol import Named, decode_assignment, decode_subscription
from penstock.core.machines.consumer_group.state import UNKNOWN_HASH
from penstock.core.machines.consumer_group.targets import TopicCatalog


def decide_upgrade(group: Group, catalog: TopicCatalog, moment: Moment) -> Decision[None]:
    """The events that convert the group, and the responses to its parked calls."""
    if group.protocol_type != CONSUMERS:
        raise UnknownGroup(f"Group {group.id} is not a consumer group.")
    epoch = max(group.generation, 1)
    events: list[Any] = [GroupRemoved(group.id)]
    taken: set[tuple[bytes, int]] = set()
    for member in group.members.values():
        try:
            events += _carried_over(group, member, epoch, catalog, taken, moment)
        except InconsistentProtocol as error:
            raise UnknownGroup(f"Group {group.id} cannot become a consumer group: {error}") from error
    events += (GroupEpochSet(group.id, GroupEpoch(epoch, UNKNOWN_HASH)), TargetEpochSet(group.id, epoch))
    told = Rebalancing(f"group {group.id!r} has become a consumer group")
    waiting: list[tuple[Waiter, BrokerError]] = [
        (Waiter(JOIN, member_id), told) for member_id in group.joining
    ]
    waiting += [(Waiter(SYNC, member_id), told) for member_id in group.syncing]
    return Decision(events, replies=[*waiting])


def _carried_over(
    group: Group,
    member: ClassicGroupMember,
    epoch: int,
    catalog: TopicCatalog,
    taken: set[tuple[bytes, int]],
    moment: Moment,
) -> list[Any]:
    protocol = group.protocol if group.protocol is not None else member.protocols[0].name
    subscription = decode_subscription(member.metadata_for(protocol))
    assigned: dict[bytes, frozenset[int]] = {}
    for topic, partitions in by_id(decode_assignment(member.assignment), catalog).items():
        own = frozenset(one for one in partitions if (topic, one) not in taken)
        taken.update((topic, one) for one in own)
        if own:
            assigned[topic] = own
    carried = ConsumerGroupMember(
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        topic_names=tuple(sorted(set(subscription.topics))),
        rebalance_ms=member.rebalance_ms,
        classic=ClassicMetadata(
            member.session_ms, tuple((one.name, one.metadata) for one in member.protocols)
        ),
    )
    return [
        MemberSet(group.id, member.id, carried),
        TargetSet(group.id, member.id, assigned),
        CurrentAssignmentSet(
            group.id, member.id, CurrentAssignment(epoch, epoch, MemberState.STABLE, assigned, {})
        ),
        SessionRenewed(group.id, member.id, moment.now_ms + member.session_ms),
    ]


def by_id(named: Named, catalog: TopicCatalog) -> Assignment:
    """The partitions by topic id; topics that do not exist are omitted."""
    found = {}
    for name, partitions in named.items():
        topic = catalog.find(name)
        if topic is not None and partitions:
            found[topic.id] = partitions
    return found
