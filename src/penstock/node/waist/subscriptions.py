"""Subscription verbs: create, delete, describe, redrive; join as a member and settle messages.

Permissions treat a subscription as a group. The coordinator decides which member gets which message.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from penstock.core.access import Operation, group_resource
from penstock.core.errors import CoordinatorUnavailable, InvalidRequest
from penstock.core.machines.cluster.values import NO_LEADER
from penstock.core.machines.subscriptions.definitions import SubscriptionDefinition as SubscriptionDefinition
from penstock.core.machines.subscriptions.subscription import Outcome as Outcome
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.coordinators.live_subscription import Delivered as Delivered
from penstock.node.coordinators.live_subscription import LiveSubscription, Recipient
from penstock.node.coordinators.subscriptions import TOPIC as SUBSCRIPTIONS_TOPIC
from penstock.node.coordinators.subscriptions import PartitionProgress as PartitionProgress
from penstock.node.coordinators.subscriptions import SubscriptionRequest as SubscriptionRequest
from penstock.node.coordinators.subscriptions import Subscriptions
from penstock.node.replicas.offset_waits import Settled
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.routes import Routes


class SeatedMember(NamedTuple):
    """A member in a description."""

    id: str
    window: int
    held: int


class SubscriptionDescription(NamedTuple):
    """A subscription with its progress and members."""

    definition: SubscriptionDefinition
    progress: list[PartitionProgress]
    members: list[SeatedMember]
    stale_partitions: Sequence[int]
    """Partitions whose leader did not say where they end: their end may be out of date."""


def outline_fields(definition: SubscriptionDefinition) -> dict[str, object]:
    """The definition of a subscription in the words of the protocols."""
    return {
        "name": definition.name,
        "topic": definition.topic,
        "hold_ms": definition.hold_ms,
        "max_deliveries": definition.deliveries_max,
        "created_ms": definition.created_ms,
    }


class Seat:
    """The membership of one member in a subscription: acknowledgements, renewals, pause and leave."""

    __slots__ = ("_acknowledge", "_authorization", "_live", "_member_id", "definition")

    def __init__(self, live: LiveSubscription, member_id: str, authorization: Authorization) -> None:
        self._live = live
        self._acknowledge = live.acknowledge
        self._member_id = member_id
        self._authorization = authorization
        self.definition = live.definition

    def acknowledge(
        self, session: Session, partition: int, offset: int, outcome: Outcome, reason: str | None = None
    ) -> None:
        """Settle a message that the member holds. Raises NotHeld if it does not hold it."""
        if self._authorization.authorizer is not None:
            self._authorize(session)
        self._acknowledge(self._member_id, partition, offset, outcome, reason)

    def renew(self, session: Session, partition: int, offset: int) -> None:
        """Extend the time that the member may hold a message."""
        self._authorize(session)
        self._live.renew(self._member_id, partition, offset)

    def _authorize(self, session: Session) -> None:
        self._authorization.authorize_group(session, Operation.READ, self.definition.name)

    def when_settled(self, settled: Settled) -> None:
        """Call back once everything settled so far is durable."""
        self._live.when_settled(settled)

    def pause(self) -> None:
        """Deliver no more for now: the member does not read."""
        self._live.pause(self._member_id)

    def resume(self) -> None:
        self._live.resume(self._member_id)

    def leave(self, session: Session, settled: Settled) -> None:
        """Leave: held messages go to other members, and this delivery is not counted."""
        self._authorize(session)
        self._live.leave(self._member_id, is_counted=False, settled=settled)

    def release(self) -> None:
        """The broker that relayed the member is gone: held messages are not the cause, so this delivery is not
        counted."""
        self._live.leave(self._member_id, is_counted=False, settled=lambda _: None)

    def abandon(self) -> None:
        """The member has disconnected without leaving: its held messages may be the cause, so their delivery is
        counted."""
        self._live.leave(self._member_id, is_counted=True, settled=lambda _: None)


class SubscriptionVerbs:
    """Serves subscriptions to clients."""

    def __init__(self, broker: Broker, authorization: Authorization, routes: Routes) -> None:
        self._broker = broker
        self._authorization = authorization
        self._routes = routes
        self.heartbeat_ms = broker.settings.subscription_heartbeat_ms
        """Interval within which members must send something."""
        self.window_max = broker.settings.subscription_window_max
        """Maximum number of messages that a member may hold."""

    def _coordinator(self, session: Session, operation: Operation, name: str) -> Subscriptions:
        self._authorization.authorize_group(session, operation, name)
        return self._routes.subscriptions(name)

    # -- where

    @property
    def are_spread(self) -> bool:
        """Whether subscriptions may be coordinated by other brokers."""
        return self._broker.links is not None

    async def locate(
        self, session: Session, operation: Operation, name: str, *, opens: bool = False
    ) -> int | None:
        """The broker that coordinates a subscription; None if it is this one. `opens` creates the coordinators' topic
        if it is missing. Raises CoordinatorUnavailable while no broker does."""
        self._authorization.authorize_group(session, operation, name)
        host = self._broker.subscriptions.host
        if opens:
            await host.open()
        if not host.is_open:
            return None  # the error is the same everywhere
        return self._elsewhere(host.index_of(name), name)

    def is_at(self, session: Session, name: str, broker_id: int | None) -> bool:
        """Whether a broker (None: this one) coordinates a subscription, as far as this one knows."""
        host = self._broker.subscriptions.host
        try:
            return host.is_open and self._elsewhere(host.index_of(name), name) == broker_id
        except CoordinatorUnavailable:
            return False

    def others(self, session: Session) -> tuple[set[int], int]:
        """The other brokers that coordinate subscriptions, and how many partitions of them nobody coordinates."""
        found: set[int] = set()
        missing = 0
        for index in range(self._broker.subscriptions.host.partition_count):
            try:
                broker_id = self._elsewhere(index, "")
            except CoordinatorUnavailable:
                missing += 1
            else:
                found |= set() if broker_id is None else {broker_id}
        return found, missing

    def _elsewhere(self, index: int, name: str) -> int | None:
        leader_id = self._broker.leader_of(SUBSCRIPTIONS_TOPIC, index)
        if leader_id == NO_LEADER:
            raise CoordinatorUnavailable(
                f"no broker coordinates the subscription {name!r} at the moment: the broker that holds its state is"
                " not running"
            )
        return None if leader_id == self._broker.identity.node_id else leader_id

    def release_members(self) -> None:
        """The doors are closing: end all members, so that their held messages do not count as delivered."""
        self._broker.subscriptions.release_members()

    # -- create, delete, join

    async def create(self, session: Session, request: SubscriptionRequest) -> bool:
        """Create a subscription; False if an identical one exists, which is left unchanged."""
        coordinator = self._coordinator(session, Operation.READ, request.name)
        self._authorization.authorize_topic(session, Operation.READ, request.topic)
        return await coordinator.create(request)

    async def delete(self, session: Session, name: str) -> None:
        """Delete a subscription and end its members."""
        await self._coordinator(session, Operation.DELETE, name).remove(name)

    def join(self, session: Session, name: str, member_id: str, window: int, recipient: Recipient) -> Seat:
        """Add a member, which receives messages from now on."""
        coordinator = self._coordinator(session, Operation.READ, name)
        if not 0 < window <= self.window_max:
            raise InvalidRequest(
                f"the window must be from 1 to {self.window_max} (subscription_window_max), not {window}"
            )
        live = coordinator.find(name)
        self._authorization.authorize_topic(session, Operation.READ, live.definition.topic)
        live.join(member_id, window, recipient)
        return Seat(live, member_id, self._authorization)

    # -- describe and redrive

    def all(self, session: Session) -> list[SubscriptionDefinition]:
        """The subscriptions that the caller may describe, sorted by name."""
        found = self._broker.subscriptions.list()
        if self._authorization.authorizer is None:
            return found
        allows = self._authorization.allows
        return [one for one in found if allows(session, Operation.DESCRIBE, group_resource(one.name))]

    async def describe(self, session: Session, name: str) -> SubscriptionDescription:
        coordinator = self._coordinator(session, Operation.DESCRIBE, name)
        stale = await coordinator.refresh(name)
        live = coordinator.find(name)
        members = live.shard.book.members(name)
        seated = [SeatedMember(one, window, members.holding[one]) for one, window in members.windows.items()]
        return SubscriptionDescription(live.definition, list(coordinator.progress(name)), seated, stale)

    async def redrive(self, session: Session, name: str, count_max: int | None) -> int:
        """Write dead letters back to their topic, for this subscription only; returns how many."""
        coordinator = self._coordinator(session, Operation.READ, name)
        topic = coordinator.find(name).definition.topic
        self._authorization.authorize_topic(session, Operation.WRITE, topic)
        return await coordinator.redrive(name, count_max)
