"""Group verbs for members and tools. Routes each call to the group's coordinator, whose machines decide.

A verb with a callback calls it exactly once, with the answer or a BrokerError, and does not raise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.core.access import CLUSTER, Operation, group_resource, topic_resource
from penstock.core.errors import BrokerError, TopicForbidden, UnknownGroup
from penstock.core.machine import GroupKind, GroupMachine
from penstock.core.machines.classic_group.group import Group
from penstock.core.machines.classic_group.values import Assigned as Assigned
from penstock.core.machines.classic_group.values import JoinCommand as JoinCommand
from penstock.core.machines.classic_group.values import Joined as Joined
from penstock.core.machines.classic_group.values import LeaveCommand as LeaveCommand
from penstock.core.machines.classic_group.values import Protocol as Protocol
from penstock.core.machines.classic_group.values import SyncCommand as SyncCommand
from penstock.core.machines.consumer_group.assignors import NOTHING as NOTHING
from penstock.core.machines.consumer_group.assignors import Assignment as Assignment
from penstock.core.machines.consumer_group.events import JOIN_EPOCH as JOIN_EPOCH
from penstock.core.machines.consumer_group.events import LEAVE_EPOCH as LEAVE_EPOCH
from penstock.core.machines.consumer_group.group import ConsumerGroup
from penstock.core.machines.consumer_group.group import HeartbeatAnswer as HeartbeatAnswer
from penstock.core.machines.consumer_group.group import MemberHeartbeat as MemberHeartbeat
from penstock.core.machines.offsets.offsets import Committed
from penstock.core.model import TopicPartition
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.coordinators.group_coordinator import GroupCoordinator
from penstock.node.coordinators.groups import ListedGroup as ListedGroup
from penstock.node.lag import Lag as Lag
from penstock.node.lag import committed_here, lag_behind
from penstock.node.replicas.edges import Bounds
from penstock.node.runtime.slices import Sliced, chunks
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.group_descriptions import (
    AssignedTopic,
    ClassicGroupDescription,
    ConsumerGroupDescription,
    GroupOutline,
    assigned_topics,
    describe_classic,
    describe_consumer,
    outline,
)
from penstock.node.waist.routes import Routes

if TYPE_CHECKING:
    from penstock.node.waist.elsewhere import Elsewhere

Answered = Callable[[Any], None]


class GroupListing(NamedTuple):
    """Groups by id, and the errors of brokers that did not tell theirs."""

    groups: list[ListedGroup]
    silent: list[BrokerError]


class GroupVerbs:
    """Serves members of groups, and tools."""

    def __init__(
        self, broker: Broker, authorization: Authorization, routes: Routes, elsewhere: Elsewhere | None
    ) -> None:
        self._broker = broker
        self._catalog = broker.catalog
        self._authorization = authorization
        self._routes = routes
        self._elsewhere = elsewhere

    def _coordinator(self, session: Session, operation: Operation, group_id: str) -> GroupCoordinator:
        """The coordinator of a group, after the permission check."""
        self._authorization.authorize_group(session, operation, group_id)
        return self._routes.groups(group_id)

    def _admitted(
        self, session: Session, operation: Operation, group_id: str, answered: Callable[[BrokerError], None]
    ) -> GroupCoordinator | None:
        """The same for a call that is answered later; None if the caller was just answered with the error."""
        try:
            return self._coordinator(session, operation, group_id)
        except BrokerError as error:
            answered(error)
            return None

    def release_waiting(self) -> None:
        """Answer every waiting member: the doors are closing."""
        self._broker.group_coordinator.release_waiting()

    # -- members of classic groups

    def new_member_id(self, session: Session, name: str) -> str:
        """A unique member id that starts with a name."""
        return self._broker.group_coordinator.classic.fresh_member_id(name)

    def join(self, session: Session, group_id: str, command: JoinCommand, answered: Answered) -> None:
        """Answered with Joined when the round closes, or with MemberIdRequired immediately."""
        coordinator = self._admitted(session, Operation.READ, group_id, answered)
        if coordinator is not None:
            coordinator.classic.join(group_id, command, answered)

    def sync(self, session: Session, group_id: str, command: SyncCommand, answered: Answered) -> None:
        """Answered with Assigned once the leader has sent its assignment."""
        coordinator = self._admitted(session, Operation.READ, group_id, answered)
        if coordinator is not None:
            coordinator.classic.sync(group_id, command, answered)

    def heartbeat(
        self,
        session: Session,
        group_id: str,
        member_id: str,
        instance_id: str | None,
        generation: int,
        answered: Answered,
    ) -> None:
        """Answered with None, or with the error that tells the member to rejoin or leave."""
        coordinator = self._admitted(session, Operation.READ, group_id, answered)
        if coordinator is not None:
            coordinator.classic.heartbeat(group_id, member_id, instance_id, generation, answered)

    def leave(
        self, session: Session, group_id: str, commands: list[LeaveCommand], answered: Answered
    ) -> None:
        """Answered with one entry per member: None, or the error."""
        coordinator = self._admitted(session, Operation.READ, group_id, answered)
        if coordinator is not None:
            coordinator.classic.leave(group_id, commands, answered)

    # -- members of consumer groups

    def new_consumer_id(self, session: Session) -> str:
        """A unique member id, for clients that let the broker choose."""
        return self._broker.group_coordinator.consumer.fresh_member_id()

    def beat(self, session: Session, group_id: str, beat: MemberHeartbeat, answered: Answered) -> None:
        """A member joins, renews its session, acknowledges its assignment or leaves. Answered with HeartbeatAnswer."""
        try:
            coordinator = self._coordinator(session, Operation.READ, group_id)
            if self._authorization.authorizer is not None:
                for name in beat.topic_names or ():
                    self._authorization.authorize(session, Operation.DESCRIBE, topic_resource(name))
        except BrokerError as error:
            answered(error)
            return
        coordinator.consumer.heartbeat(group_id, beat, answered)

    def assigned_topics(self, session: Session, assignment: Assignment) -> list[AssignedTopic]:
        """A member's own assignment with topic names; topics deleted meanwhile are left out."""
        return assigned_topics(assignment, self._catalog)

    # -- describe

    def all(self, session: Session) -> Sliced[Sequence[ListedGroup]]:
        """The groups of this broker that the caller may describe, sorted by id; groups created or removed meanwhile
        may be missing."""
        listed = yield from self._broker.group_coordinator.groups.list_sliced()
        return (yield from self._describable(session, listed))

    @property
    def are_here(self) -> bool:
        """Whether this broker coordinates all groups: it is alone."""
        return self._elsewhere is None

    async def everywhere(self, session: Session) -> GroupListing:
        """The same for all brokers of the cluster."""
        slices = self._broker.runtime.slices
        listed = list(await slices.run(self.all(session)))
        if self._elsewhere is None:
            return GroupListing(listed, [])
        silent: list[BrokerError] = []
        for told in (await self._elsewhere.offsets.groups()).values():
            if isinstance(told, BrokerError):
                silent.append(told)
                continue
            others = [
                ListedGroup(one.group_id, GroupKind(one.kind), one.protocol_type, one.state_name)
                for one in told
            ]
            listed += await slices.run(self._describable(session, others))
        # A group that moves to another broker meanwhile may be listed by both.
        by_id = {one.group_id: one for one in listed}
        return GroupListing([by_id[group_id] for group_id in sorted(by_id)], silent)

    def _describable(self, session: Session, listed: Sequence[ListedGroup]) -> Sliced[Sequence[ListedGroup]]:
        if self._authorization.allows(session, Operation.DESCRIBE, CLUSTER):
            return listed
        known: list[ListedGroup] = []
        for some in chunks(listed):
            known += [
                one
                for one in some
                if self._authorization.allows(session, Operation.DESCRIBE, group_resource(one.group_id))
            ]
            yield len(some)
        return known

    def describe_classic(
        self,
        session: Session,
        group_id: str,
        answered: Callable[[ClassicGroupDescription | BrokerError], None],
    ) -> None:
        """Answered once the described state is durable; UnknownGroup if there is no group of this kind."""

        def described(group: Group | BrokerError) -> None:
            answered(group if isinstance(group, BrokerError) else describe_classic(group))

        coordinator = self._admitted(session, Operation.DESCRIBE, group_id, answered)
        if coordinator is not None:
            coordinator.classic.describe(group_id, described)

    def describe_consumer(
        self,
        session: Session,
        group_id: str,
        answered: Callable[[ConsumerGroupDescription | BrokerError], None],
    ) -> None:
        """The same for a consumer group. The caller must be allowed to describe all of its topics."""

        def described(group: ConsumerGroup | BrokerError) -> None:
            if isinstance(group, BrokerError):
                answered(group)
                return
            description = describe_consumer(group, self._catalog)
            if self._authorization.authorizer is not None:
                allows = self._authorization.allows
                if not all(
                    allows(session, Operation.DESCRIBE, topic_resource(name)) for name in description.topics
                ):
                    answered(
                        TopicForbidden(
                            "The described group uses topics that the client is not authorized to describe."
                        )
                    )
                    return
            answered(description)

        coordinator = self._admitted(session, Operation.DESCRIBE, group_id, answered)
        if coordinator is not None:
            coordinator.consumer.describe(group_id, described)

    async def outline(self, session: Session, group_id: str) -> GroupOutline:
        """Describe a group of any kind, once its state is durable."""
        return outline(await self._settled(session, group_id), self._catalog)

    async def lag(self, session: Session, group_id: str) -> Iterator[Lag]:
        """The lag of a group by partition, wherever that is led."""
        group = await self._settled(session, group_id)
        return await self.lag_behind(session, committed_here(self._broker, group.id))

    async def lag_behind(
        self, session: Session, committed: Mapping[TopicPartition, Committed]
    ) -> Iterator[Lag]:
        """The same for committed offsets that the coordinator has told, wherever it is; without the topics that the
        caller may not describe."""
        found = lag_behind(self._broker, committed, await self._bounds_elsewhere(committed))
        if self._authorization.authorizer is None:
            return found
        return (
            one
            for one in found
            if self._authorization.allows(session, Operation.DESCRIBE, topic_resource(one.place.topic))
        )

    async def learn_bounds(self, session: Session) -> None:
        """Ask other brokers for what the metrics need to tell the lag of the groups that are coordinated here."""
        self._authorization.authorize(session, Operation.DESCRIBE, CLUSTER)
        coordinator = self._broker.group_coordinator
        committed = (
            place
            for shard in coordinator.groups.shards
            for group_id in shard.roster.offsets.group_ids
            for place in shard.roster.offsets.of_group(group_id)
        )
        coordinator.bounds_elsewhere = await self._bounds_elsewhere(committed)

    async def _bounds_elsewhere(
        self, committed: Iterable[TopicPartition]
    ) -> Mapping[TopicPartition, Bounds | BrokerError]:
        """Of the partitions on other brokers in the topics of these partitions."""
        if self._elsewhere is None:
            return {}
        places: list[TopicPartition] = []
        for name in dict.fromkeys(place.topic for place in committed):
            topic = self._catalog.find(name)
            count = 0 if topic is None else topic.partition_count
            places += self._elsewhere.among(TopicPartition(name, index) for index in range(count))
        return await self._elsewhere.offsets.bounds(places)

    async def _settled(self, session: Session, group_id: str) -> GroupMachine:
        groups = self._coordinator(session, Operation.DESCRIBE, group_id).groups
        if not groups.is_open:
            raise UnknownGroup(f"group {group_id!r} does not exist")
        group = groups.find(group_id)
        if group is None:
            raise UnknownGroup(f"there is no group {group_id!r}")
        await groups.shard_of(group_id).persisted(group_id)
        return group

    # -- delete

    def delete(self, session: Session, group_id: str, answered: Callable[[BrokerError | None], None]) -> None:
        """Delete a group without members, with its offsets."""
        coordinator = self._admitted(session, Operation.DELETE, group_id, answered)
        if coordinator is not None:
            coordinator.groups.remove(group_id, answered)
