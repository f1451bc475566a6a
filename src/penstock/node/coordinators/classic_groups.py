"""The classic group protocol: join, sync, heartbeat and leave for members, describe for tools.

Every call invokes its callback exactly once, with the machine's answer or a BrokerError. Does not raise.
"""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from penstock.core.errors import BrokerError, InconsistentProtocol, UnknownMember
from penstock.core.machine import AnswerT, Decision, GroupKind, Moment
from penstock.core.machines.classic_group.group import Group
from penstock.core.machines.classic_group.values import (
    Assigned,
    JoinCommand,
    Joined,
    LeaveCommand,
    SyncCommand,
)
from penstock.core.machines.consumer_group import classic_members as consumer_group_classic
from penstock.core.machines.consumer_group.group import ConsumerGroup
from penstock.core.machines.consumer_group.targets import Topics
from penstock.core.ports import Rng
from penstock.node.coordinators.group_shard import Answered, GroupShard
from penstock.node.coordinators.groups import Groups, check_group_id

Decide = Callable[[Group, Moment], Decision[AnswerT]]
DecideAmong = Callable[[ConsumerGroup, Moment], Decision[AnswerT]]
"""The same for a classic member of a consumer group."""


class ClassicGroups:
    """The classic protocol for the groups of one node."""

    def __init__(self, groups: Groups, rng: Rng, topics: Callable[[], Topics]) -> None:
        self._groups = groups
        self._rng = rng
        self._topics = topics

    def fresh_member_id(self, name: str) -> str:
        """A unique member id: the name of the client or static member, and random bytes."""
        return f"{name}-{UUID(bytes=self._rng.bytes(16), version=4)}"

    def join(self, group_id: str, command: JoinCommand, answered: Answered[Joined]) -> None:
        """Answered with Joined when the round closes, or with MemberIdRequired immediately."""
        try:
            shard = self._groups.shard_of(check_group_id(group_id))
            decision = self._decide_join(shard, group_id, command)
        except BrokerError as error:
            answered(error)
            return
        shard.commit(group_id, decision, answered)

    def _decide_join(self, shard: GroupShard, group_id: str, command: JoinCommand) -> Decision[Joined]:
        """A consumer group admits classic members; a group of any other kind is replaced only if it is empty."""
        group = shard.roster.find_or_make(group_id, GroupKind.CLASSIC)
        if isinstance(group, Group):
            return group.decide_join(command, shard.moment())
        if isinstance(group, ConsumerGroup) and not group.is_empty:
            return consumer_group_classic.decide_join(group, command, self._topics(), shard.moment())
        if not group.is_empty:
            raise InconsistentProtocol(f"group {group_id!r} is a {group.kind.value} group")
        removal = group.decide_remove()
        fresh = shard.roster.make(group_id, GroupKind.CLASSIC)
        assert isinstance(fresh, Group)
        decision = fresh.decide_join(command, shard.moment())
        decision.events[:0] = removal
        return decision

    def sync(self, group_id: str, command: SyncCommand, answered: Answered[Assigned]) -> None:
        """Answered with Assigned once the leader has sent its assignment."""
        self._with_group(
            group_id,
            lambda group, now: group.decide_sync(command, now),
            lambda group, now: consumer_group_classic.decide_sync(
                group, command, self._topics().catalog, now
            ),
            answered,
        )

    def heartbeat(
        self,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        answered: Answered[None],
    ) -> None:
        """Answered with None, or with the error that tells the member to rejoin or leave."""
        self._with_group(
            group_id,
            lambda group, now: group.decide_heartbeat(member_id, instance_id, generation, now),
            lambda group, now: consumer_group_classic.decide_heartbeat(
                group, member_id, instance_id, generation, now
            ),
            answered,
        )

    def leave(
        self, group_id: str, commands: list[LeaveCommand], answered: Answered[list[BrokerError | None]]
    ) -> None:
        """Answered with one entry per member: None, or the error."""
        self._with_group(
            group_id,
            lambda group, now: group.decide_leave(commands, now),
            lambda group, now: consumer_group_classic.decide_leave(group, commands, now),
            answered,
        )

    def _with_group(
        self,
        group_id: str,
        decide: Decide[AnswerT],
        decide_among: DecideAmong[AnswerT],
        answered: Answered[AnswerT],
    ) -> None:
        try:
            shard = self._groups.shard_of(check_group_id(group_id))
            group = shard.roster.find(group_id)
            if isinstance(group, Group):
                decision = decide(group, shard.moment())
            elif isinstance(group, ConsumerGroup):
                decision = decide_among(group, shard.moment())
            else:
                raise UnknownMember(f"consumer group {group_id!r} does not exist")
        except BrokerError as error:
            answered(error)
            return
        shard.commit(group_id, decision, answered)

    def describe(self, group_id: str, answered: Answered[Group]) -> None:
        """Answered with the Group, which is valid during the callback only; UnknownGroup if there is none of this
        kind."""
        self._groups.describe(group_id, GroupKind.CLASSIC, answered)
