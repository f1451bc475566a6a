"""Group verbs for doors whose clients cannot look up coordinators: calls go to the group's coordinator, wherever it is.

A call of another broker's group is forwarded once it is known who coordinates it, and again only if a broker said that
it does not, or could not be reached: both mean that the call was not run. The coordinator checks the permissions of the
client, as this broker does before it forwards. A single broker forwards nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.core.access import Operation
from penstock.core.errors import BrokerError, CoordinatorUnavailable, NotCoordinator, PeerUnavailable
from penstock.core.machine import GroupKind
from penstock.core.machines.cluster.values import NO_LEADER
from penstock.core.model import TopicPartition
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.coordinators.groups import TOPIC as GROUPS_TOPIC
from penstock.node.lag import Lag
from penstock.node.runtime.tasks import Tasks
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.committed import (
    NO_RETENTION,
    Committed,
    CommittedVerbs,
    Committer,
    OffsetEntry,
    OutcomeCollector,
    Outcomes,
)
from penstock.node.waist.group_descriptions import GroupOutline, MemberOutline, classic_outline
from penstock.node.waist.groups import Answered, GroupVerbs, HeartbeatAnswer, MemberHeartbeat
from penstock.wire.kafka import messages

if TYPE_CHECKING:
    from penstock.node.peers.group_calls import GroupCoordinatorCall

FORWARD_S_MAX = 5.0
"""How long a call looks for a coordinator."""
RETRY_S, RETRY_S_MAX = 0.05, 0.5

T = TypeVar("T")
Found = dict[TopicPartition, "Committed | BrokerError | None"]


class ForwardedGroupVerbs:
    """Serves members and tools of groups that any broker may coordinate."""

    def __init__(
        self, broker: Broker, authorization: Authorization, groups: GroupVerbs, committed: CommittedVerbs
    ) -> None:
        self._broker = broker
        self._authorization = authorization
        self._groups = groups
        self._committed = committed
        self._tasks = Tasks()

    # -- members

    def beat(self, session: Session, group_id: str, beat: MemberHeartbeat, answered: Answered) -> None:
        """See `GroupVerbs.beat`."""
        if self._is_here(group_id):
            self._groups.beat(session, group_id, beat, answered)
            return

        def here() -> Awaitable[HeartbeatAnswer]:
            reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            self._groups.beat(session, group_id, beat, reply.set_result)
            return _settled(reply)

        async def there(call: GroupCoordinatorCall) -> HeartbeatAnswer:
            from penstock.node.peers.group_calls import send_heartbeat

            return await send_heartbeat(call, group_id, beat)

        async def forward() -> None:
            outcome: HeartbeatAnswer | BrokerError
            try:
                outcome = await self._run(session, Operation.READ, group_id, here, there, beat.client_id)
            except BrokerError as error:
                outcome = error
            answered(outcome)

        self._tasks.spawn(forward(), lambda bug: answered(NotCoordinator(f"defect: {bug!r}")))

    # -- offsets

    async def commit(
        self, session: Session, group_id: str, by: Committer, entries: Sequence[OffsetEntry]
    ) -> Outcomes:
        """See `CommittedVerbs.commit`."""

        async def here() -> Outcomes:
            reply: asyncio.Future[Outcomes] = asyncio.get_running_loop().create_future()
            steps = self._committed.commit(session, group_id, by, entries, NO_RETENTION, reply.set_result)
            await self._broker.runtime.slices.run(steps)
            outcomes = await reply
            if outcomes.failure is not None:
                raise outcomes.failure
            return outcomes

        async def there(call: GroupCoordinatorCall) -> Outcomes:
            return await self._commit_there(call, group_id, by, entries)

        return await self._run(session, Operation.READ, group_id, here, there)

    async def _commit_there(
        self, call: GroupCoordinatorCall, group_id: str, by: Committer, entries: Sequence[OffsetEntry]
    ) -> Outcomes:
        from penstock.node.peers.group_calls import send_commit

        reply: asyncio.Future[Outcomes] = asyncio.get_running_loop().create_future()
        collector = OutcomeCollector(len(entries), reply.set_result)
        batches = await self._broker.runtime.slices.run(
            self._committed.located(call.session, entries, collector)
        )
        for place, (offsets, settled) in enumerate(batches):
            try:
                outcomes = await send_commit(call, group_id, by, offsets)
                refused = [one for one in outcomes if isinstance(one, NotCoordinator)]
                if refused and not place:
                    raise refused[0]  # nothing was committed: all partitions have the same answer
                settled(outcomes)
            except BrokerError as error:
                if not place:
                    raise
                settled(error)
        return await reply

    async def fetch(self, session: Session, group_id: str, wanted: Sequence[TopicPartition] | None) -> Found:
        """Committed offsets of any client's view of a group; `wanted` None fetches all. See `CommittedVerbs.fetch`."""

        async def here() -> Found:
            reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            steps = self._committed.fetch(
                session, group_id, Committer(), wanted, reply.set_result, require_stable=False
            )
            await self._broker.runtime.slices.run(steps)
            found: Found = await _settled(reply)
            return found

        async def there(call: GroupCoordinatorCall) -> Found:
            from penstock.node.peers.group_calls import fetch_committed

            return await fetch_committed(call, group_id, wanted)

        return await self._run(session, Operation.DESCRIBE, group_id, here, there)

    # -- describe

    async def outline(self, session: Session, group_id: str) -> GroupOutline:
        """See `GroupVerbs.outline`."""

        async def there(call: GroupCoordinatorCall) -> GroupOutline:
            from penstock.node.peers.group_calls import describe_group

            return _outline(await describe_group(call, group_id))

        async def here() -> GroupOutline:
            return await self._groups.outline(session, group_id)

        return await self._run(session, Operation.DESCRIBE, group_id, here, there)

    async def lag(self, session: Session, group_id: str) -> Iterator[Lag]:
        """See `GroupVerbs.lag`."""

        async def here() -> Iterator[Lag]:
            return await self._groups.lag(session, group_id)

        async def there(call: GroupCoordinatorCall) -> Iterator[Lag]:
            from penstock.node.peers.group_calls import describe_group, fetch_committed

            await describe_group(call, group_id)  # a group that does not exist has no lag
            found = await fetch_committed(call, group_id, None)
            committed = {place: one for place, one in sorted(found.items()) if isinstance(one, Committed)}
            return await self._groups.lag_behind(session, committed)

        return await self._run(session, Operation.DESCRIBE, group_id, here, there)

    # -- where

    def _is_here(self, group_id: str) -> bool:
        """Whether there is nobody else to ask."""
        broker = self._broker
        if broker.links is None or not broker.group_coordinator.groups.host.is_open:
            return True
        return self._leader(group_id) == broker.identity.node_id

    def _leader(self, group_id: str) -> int:
        host = self._broker.group_coordinator.groups.host
        return self._broker.leader_of(GROUPS_TOPIC, host.index_of(group_id))

    async def _run(
        self,
        session: Session,
        operation: Operation,
        group_id: str,
        here: Callable[[], Awaitable[T]],
        there: Callable[[GroupCoordinatorCall], Awaitable[T]],
        client_id: str | None = None,
    ) -> T:
        """Run a call where the group is coordinated. Raises BrokerError."""
        broker = self._broker
        links = broker.links
        if links is None or not broker.group_coordinator.groups.host.is_open:
            return await here()
        from penstock.node.peers.group_calls import GroupCoordinatorCall

        self._authorization.authorize_group(session, operation, group_id)
        loop = asyncio.get_running_loop()
        deadline_s, pause_s = loop.time() + FORWARD_S_MAX, RETRY_S
        while True:
            leader_id = self._leader(group_id)
            try:
                if leader_id == NO_LEADER:
                    raise CoordinatorUnavailable(
                        f"no broker coordinates the group {group_id!r} at the moment: the one that holds its state is"
                        " not running"
                    )
                if leader_id == broker.identity.node_id:
                    return await here()
                own_id = client_id or session.client_id
                return await there(GroupCoordinatorCall(links, leader_id, session, own_id))
            except (NotCoordinator, CoordinatorUnavailable, PeerUnavailable):
                if loop.time() + pause_s > deadline_s:
                    raise
            await asyncio.sleep(pause_s)
            pause_s = min(2 * pause_s, RETRY_S_MAX)


async def _settled(reply: asyncio.Future[Any]) -> Any:
    outcome = await reply
    if isinstance(outcome, BrokerError):
        raise outcome
    return outcome


def _outline(
    group: messages.ConsumerGroupDescribeResponse.DescribedGroup
    | messages.DescribeGroupsResponse.DescribedGroup,
) -> GroupOutline:
    """A group as its coordinator described it."""
    if isinstance(group, messages.ConsumerGroupDescribeResponse.DescribedGroup):
        members = (
            MemberOutline(
                one.member_id,
                one.client_id,
                one.client_host,
                {topic.topic_name: frozenset(topic.partitions) for topic in one.assignment.topic_partitions},
            )
            for one in group.members
        )
        return GroupOutline(group.group_id, GroupKind.CONSUMER, group.group_state, members)
    classic = (
        classic_outline(one.member_id, one.client_id, one.client_host, bytes(one.member_assignment))
        for one in group.members
    )
    return GroupOutline(group.group_id, GroupKind.CLASSIC, group.group_state, classic)
