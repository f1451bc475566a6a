"""The consumer group protocol (KIP-848): heartbeats for members, describe for tools.

Every call invokes its callback exactly once, with the machine's answer or a BrokerError. Does not raise.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from penstock.core.errors import BrokerError, UnknownGroup
from penstock.core.machine import Decision, GroupKind, GroupMachine, Moment
from penstock.core.machines.classic_group.group import Group
from penstock.core.machines.consumer_group.events import JOIN_EPOCH
from penstock.core.machines.consumer_group.group import ConsumerGroup, HeartbeatAnswer, MemberHeartbeat
from penstock.core.machines.consumer_group.targets import Topics
from penstock.core.machines.consumer_group.upgrade import decide_upgrade
from penstock.core.ports import Rng
from penstock.node.coordinators.group_shard import Answered, GroupShard
from penstock.node.coordinators.groups import Groups, check_group_id


class ConsumerGroups:
    """The consumer protocol for the groups of one node. `topics` returns the current topics."""

    def __init__(self, groups: Groups, rng: Rng, topics: Callable[[], Topics]) -> None:
        self._groups = groups
        self._rng = rng
        self._topics = topics

    def fresh_member_id(self) -> str:
        """A unique member id, for clients that let the broker choose."""
        return str(UUID(bytes=self._rng.bytes(16), version=4))

    def heartbeat(self, group_id: str, beat: MemberHeartbeat, answered: Answered[HeartbeatAnswer]) -> None:
        """Answered with HeartbeatAnswer."""
        try:
            shard = self._groups.shard_of(check_group_id(group_id))
            beat.check()
            decision = self._decide(shard, group_id, beat)
        except BrokerError as error:
            answered(error)
            return
        shard.commit(group_id, decision, answered)

    def _decide(self, shard: GroupShard, group_id: str, beat: MemberHeartbeat) -> Decision[HeartbeatAnswer]:
        """A classic group of consumers is upgraded; any other group is replaced only if it is empty."""
        group, topics, moment = shard.roster.find(group_id), self._topics(), shard.moment()
        if isinstance(group, ConsumerGroup):
            return group.decide_heartbeat(beat, topics, moment)
        if beat.epoch != JOIN_EPOCH:
            raise UnknownGroup(f"Consumer group {group_id} not found.")
        fresh = shard.roster.make(group_id, GroupKind.CONSUMER)
        assert isinstance(fresh, ConsumerGroup)
        before = _cleared(group, topics, moment)
        for event in before.events:
            if event.kind is GroupKind.CONSUMER:
                fresh.apply(event)
        decision = fresh.decide_heartbeat(beat, topics, moment)
        decision.events[:0] = before.events
        decision.replies = before.replies
        return decision

    def describe(self, group_id: str, answered: Answered[ConsumerGroup]) -> None:
        """Answered with the ConsumerGroup, which is valid during the callback only; UnknownGroup if it is of another
        kind."""
        self._groups.describe(group_id, GroupKind.CONSUMER, answered)


def _cleared(group: GroupMachine | None, topics: Topics, moment: Moment) -> Decision[None]:
    """Removes or upgrades the group that has the id of the wanted consumer group."""
    if group is None:
        return Decision()
    if group.is_empty:
        return Decision(group.decide_remove())
    if isinstance(group, Group):
        return decide_upgrade(group, topics.catalog, moment)
    raise UnknownGroup(f"Group {group.id} is not a consumer group.")
