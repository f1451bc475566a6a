"""Members of the classic protocol in a consumer group: their joins become heartbeats. Calls never wait.

A join returns the member epoch as the generation and another member as the leader; the sync returns the assignment of
the broker. When the member has a reconciliation step to take, it is told that the group rebalances and rejoins.
"""

from __future__ import annotations

from typing import Any

from penstock.core.errors import (
    BrokerError,
    InconsistentProtocol,
    InvalidSession,
    MemberIdRequired,
    Rebalancing,
    StaleGeneration,
    UnknownMember,
)
from penstock.core.machine import Decision, Moment
from penstock.core.machines.classic_group.values import (
    CONSUMERS,
    Assigned,
    JoinCommand,
    Joined,
    LeaveCommand,
    SyncCommand,
)
from penstock.core.machines.consumer_group.downgrade import shared_protocols
from penstock.core.machines.consumer_group.events import (
    JOIN_EPOCH,
    PAUSE_EPOCH,
    ClassicMetadata,
    ConsumerGroupMember,
    MemberState,
    RevocationDue,
)
from penstock.core.machines.consumer_group.group import ConsumerGroup, HeartbeatAnswer, MemberHeartbeat
from penstock.core.machines.consumer_group.protocol import decode_subscription, encode_assignment
from penstock.core.machines.consumer_group.targets import TopicCatalog, Topics
from penstock.core.machines.consumer_group.upgrade import by_id

NOBODY_LEADS = ""


def decide_join(
    group: ConsumerGroup, command: JoinCommand, topics: Topics, moment: Moment
) -> Decision[Joined]:
    """A classic member joins or takes its next step. Answered immediately."""
    _check_join(group, command)
    if not command.member_id and command.instance_id is None and command.needs_known_id:
        return Decision(answer=MemberIdRequired(command.fresh_id))
    member_id = command.member_id or command.fresh_id
    if command.member_id and command.instance_id is not None:
        group.check_member(member_id, command.instance_id)
    beaten = group.decide_heartbeat(_as_heartbeat(group, member_id, command, topics.catalog), topics, moment)
    assert isinstance(beaten.answer, HeartbeatAnswer)
    epoch, protocol = beaten.answer.epoch, command.protocols[0].name
    return Decision(beaten.events, Joined(member_id, epoch, CONSUMERS, protocol, NOBODY_LEADS, members=()))


def _check_join(group: ConsumerGroup, command: JoinCommand) -> None:
    low_ms, high_ms = group.terms.classic_session_ms_min, group.terms.classic_session_ms_max
    if not low_ms <= command.session_ms <= high_ms:
        raise InvalidSession(f"session timeout {command.session_ms} ms is outside {low_ms} to {high_ms}")
    if command.protocol_type != CONSUMERS or not command.protocols:
        raise InconsistentProtocol(
            f"group {group.id!r} has protocol type 'consumer', not {command.protocol_type!r}"
        )
    others = {key: member for key, member in group.members.items() if member.classic is not None}
    others.pop(command.member_id, None)
    shared = shared_protocols(others)
    if others and not any(one.name in shared for one in command.protocols):
        raise InconsistentProtocol(f"group {group.id!r} shares no protocol with this member")


def _as_heartbeat(
    group: ConsumerGroup, member_id: str, command: JoinCommand, catalog: TopicCatalog
) -> MemberHeartbeat:
    subscription = decode_subscription(command.protocols[0].metadata)
    epoch = group.current_assignment(member_id).epoch if member_id in group.members else JOIN_EPOCH
    if epoch == PAUSE_EPOCH:
        epoch = JOIN_EPOCH
    return MemberHeartbeat(
        member_id=member_id,
        epoch=epoch,
        instance_id=command.instance_id,
        client_id=command.client_id,
        client_host=command.client_host,
        rebalance_ms=command.rebalance_ms,
        topic_names=subscription.topics,
        topic_regex="",
        owned={} if epoch == JOIN_EPOCH else by_id(subscription.owned, catalog),
        classic=ClassicMetadata(
            command.session_ms, tuple((one.name, one.metadata) for one in command.protocols)
        ),
    )


def decide_sync(
    group: ConsumerGroup, command: SyncCommand, catalog: TopicCatalog, moment: Moment
) -> Decision[Assigned]:
    """A member fetches its assignment."""
    member = _checked(group, command.member_id, command.instance_id, command.generation)
    assert member.classic is not None
    names = [name for name, _ in member.classic.protocols]
    if command.protocol_type not in (None, CONSUMERS) or command.protocol not in (None, *names):
        raise InconsistentProtocol(f"group {group.id!r} uses {names[0]!r}, not {command.protocol!r}")
    current = group.current_assignment(command.member_id)
    if group.epoch > current.epoch and current.state is not MemberState.UNREVOKED:
        raise Rebalancing(f"group {group.id!r} has a newer assignment")
    protocol = command.protocol or names[0]
    version = decode_subscription(dict(member.classic.protocols)[protocol]).version
    named = {
        topic.name: current.assigned[topic.id] for topic in catalog.topics if topic.id in current.assigned
    }
    return Decision(
        [group.session_renewed(command.member_id, member, moment)],
        Assigned(CONSUMERS, protocol, encode_assignment(version, named)),
    )


def decide_heartbeat(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int, moment: Moment
) -> Decision[None]:
    """Renew a member's session, and tell it to rejoin if it has a step to take."""
    member = _checked(group, member_id, instance_id, generation)
    decision: Decision[None] = Decision([group.session_renewed(member_id, member, moment)])
    if _has_pending_step(group, member_id):
        decision.answer = Rebalancing(f"group {group.id!r} is rebalancing")
        if member_id not in group.revocations:
            decision.events.append(RevocationDue(group.id, member_id, moment.now_ms + member.rebalance_ms))
    return decision


def _has_pending_step(group: ConsumerGroup, member_id: str) -> bool:
    current = group.current_assignment(member_id)
    if group.epoch > current.epoch or current.state is MemberState.UNREVOKED:
        return True
    if current.state is MemberState.STABLE:
        return False
    return any(
        partition not in current.assigned.get(topic, ()) and group.is_free_for(member_id, topic, partition)
        for topic, partitions in group.target(member_id).items()
        for partition in partitions
    )


def decide_leave(
    group: ConsumerGroup, commands: list[LeaveCommand], moment: Moment
) -> Decision[list[BrokerError | None]]:
    """Members leave. The response is None or an error for each of them."""
    outcomes: list[BrokerError | None] = []
    going: list[str] = []
    for command in commands:
        try:
            member_id = _leaver(group, command)
            if member_id in going:
                raise UnknownMember(f"member {member_id!r} was removed by an earlier entry of this request")
            going.append(member_id)
            outcomes.append(None)
        except BrokerError as error:
            outcomes.append(error)
    events: list[Any] = group.decide_drop(going, moment) if going else []
    return Decision(events, outcomes)


def _leaver(group: ConsumerGroup, command: LeaveCommand) -> str:
    """An administrator may name a static member by its instance id alone; members give their member id."""
    if not command.member_id and command.instance_id is not None:
        holder = group.instances.get(command.instance_id)
        if holder is None:
            raise UnknownMember(f"group {group.id!r} has no static member {command.instance_id!r}")
        return holder
    group.check_member(command.member_id, command.instance_id)
    return command.member_id


def _checked(
    group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
) -> ConsumerGroupMember:
    member = group.check_member(member_id, instance_id)
    if member.classic is None:
        raise UnknownMember(f"member {member_id!r} of group {group.id!r} does not use the classic protocol")
    epoch = group.current_assignment(member_id).epoch
    if generation != epoch:
        raise StaleGeneration(
            f"member {member_id!r} of group {group.id!r} is in generation {epoch}, not {generation}"
        )
    return member
