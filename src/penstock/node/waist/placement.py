"""Partition placement for tools: reassignments and elections.

On a single node nothing is placed: its only replica leads every partition, and none is ever moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from functools import partial
from typing import NamedTuple

from penstock.core.access import CLUSTER, Operation
from penstock.core.errors import (
    BrokerError,
    ElectionNotNeeded,
    InvalidAssignment,
    InvalidRequest,
    NoReassignment,
    UnknownTopic,
)
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.core.machines.cluster.election import ElectionKind
from penstock.core.machines.cluster.partition_state import decide_elect
from penstock.core.machines.cluster.reassignment import decide_cancel, decide_reassign
from penstock.core.machines.cluster.values import NO_LEADER
from penstock.core.model import PartitionId
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.changes import Changes, Step
from penstock.node.waist.routes import Routes


class Reassignment(NamedTuple):
    """The wanted replicas of a partition; None cancels a reassignment."""

    topic: str
    partition: int
    replica_ids: Sequence[int] | None


class OngoingReassignment(NamedTuple):
    """A partition on its way to other brokers."""

    topic: str
    partition: int
    replica_ids: Sequence[int]
    adding_ids: Sequence[int]
    removing_ids: Sequence[int]


class PlacementOutcome(Enum):
    """The outcome of an election or reassignment that was not rejected."""

    DONE = "done"
    NO_MOVE = "no-move"
    """There was no reassignment to cancel."""
    NOT_NEEDED = "not-needed"
    """The preferred replica leads already."""
    OFFLINE = "offline"
    """No replica can lead the partition."""


class PlacementVerbs:
    """Serves calls about replicas and leaders."""

    def __init__(self, broker: Broker, authorization: Authorization, routes: Routes) -> None:
        self._broker = broker
        self._authorization = authorization
        self._partitions_of = routes.partitions_of
        self._changes = Changes(broker)

    @property
    def _is_single(self) -> bool:
        return not self._broker.catalog.cluster.has_brokers

    def authorize_changes(self, session: Session) -> None:
        """Raise unless the caller may change the placement of partitions."""
        self._authorization.authorize(session, Operation.ALTER, CLUSTER)

    # -- reassignments

    def reassignments(
        self, session: Session, topics: Sequence[tuple[str, Sequence[int]]] | None = None
    ) -> Iterator[OngoingReassignment]:
        """The reassignments in progress, of these partitions or of all."""
        self._authorization.authorize(session, Operation.DESCRIBE, CLUSTER)
        catalog = self._broker.catalog
        wanted: list[tuple[str, Sequence[int]]]
        if topics is None:
            wanted = [(topic.name, range(topic.partition_count)) for topic in catalog.topics]
        else:
            wanted = [(name, indexes) for name, indexes in topics if catalog.find(name) is not None]
        return (
            OngoingReassignment(name, index, found.replicas, found.adding, found.removing)
            for name, indexes in wanted
            for index in indexes
            if (found := catalog.cluster.find_partition(PartitionId(catalog.topic(name).id, index)))
            is not None
            and found.is_moving
        )

    async def reassign_all(
        self, session: Session, wanted: Sequence[Reassignment], timeout_ms: int | None = None
    ) -> list[PlacementOutcome | BrokerError]:
        """Start, replace or cancel reassignments; returns once that is durable, not when records are copied."""
        self.authorize_changes(session)
        if self._is_single:
            return [self._reassign_single(one) for one in wanted]
        steps: list[Step | BrokerError] = [partial(_reassign, one) for one in wanted]
        changed = await self._changes.commit(steps, timeout_ms=timeout_ms)
        return [
            PlacementOutcome.NO_MOVE if isinstance(error, NoReassignment) else error or PlacementOutcome.DONE
            for error in changed.errors
        ]

    def _reassign_single(self, wanted: Reassignment) -> PlacementOutcome | BrokerError:
        """A partition can be assigned to this broker only, and there is no reassignment to cancel."""
        try:
            _find_partition(self._broker.catalog, wanted.topic, wanted.partition)
            if wanted.replica_ids is None:
                return PlacementOutcome.NO_MOVE
            self._check_replicas(wanted.replica_ids)
        except BrokerError as error:
            return error
        return PlacementOutcome.DONE

    def _check_replicas(self, replica_ids: Sequence[int]) -> None:
        if not replica_ids:
            raise InvalidAssignment("The manual partition assignment includes an empty replica list.")
        for broker_id in sorted(replica_ids):
            if broker_id != self._broker.identity.node_id:
                raise InvalidAssignment(
                    f"The manual partition assignment includes broker {broker_id}, but no such broker is registered."
                )
        if len(replica_ids) > 1:
            raise InvalidAssignment(
                f"The manual partition assignment includes the broker {replica_ids[0]} more than once."
            )

    # -- elections

    def electable(self, session: Session, kind: int) -> list[tuple[str, list[int]]]:
        """Every topic with the partitions for which an election of this kind makes sense."""
        self.authorize_changes(session)
        catalog = self._broker.catalog
        if self._is_single:
            return [
                (one.name, [each.index for each in self._partitions_of(one.name) if each.failure is not None])
                for one in catalog.topics
            ]
        is_unclean = kind == ElectionKind.UNCLEAN
        return [
            (
                topic.name,
                [
                    one.partition
                    for one in catalog.cluster.partitions_of(topic.id)
                    if (one.leader == NO_LEADER if is_unclean else one.leader != one.target[0])
                ],
            )
            for topic in catalog.topics
        ]

    async def elect_all(
        self, session: Session, kind: int, places: Sequence[tuple[str, int]], timeout_ms: int | None = None
    ) -> list[PlacementOutcome | BrokerError]:
        """Elect leaders: of kind 0 the preferred replica, of kind 1 any replica, if nobody leads."""
        self.authorize_changes(session)
        if kind not in ElectionKind._value2member_map_:
            return [InvalidRequest(f"Unknown election type {kind}") for _ in places]
        if self._is_single:
            return [self._elect_single(topic, index) for topic, index in places]
        decide: Callable[[tuple[str, int]], Step] = partial(_election, ElectionKind(kind))
        changed = await self._changes.commit([decide(place) for place in places], timeout_ms=timeout_ms)
        return [
            PlacementOutcome.NOT_NEEDED
            if isinstance(error, ElectionNotNeeded)
            else error or PlacementOutcome.DONE
            for error in changed.errors
        ]

    def _elect_single(self, topic: str, index: int) -> PlacementOutcome | BrokerError:
        """No election is needed: every online partition is led by its only replica."""
        partitions = self._partitions_of(topic)
        if not partitions:
            return UnknownTopic(f"No such topic as {topic}")
        if not 0 <= index < len(partitions):
            return UnknownTopic(f"No such partition as {topic}-{index}")
        return PlacementOutcome.NOT_NEEDED if partitions[index].failure is None else PlacementOutcome.OFFLINE


def _find_partition(catalog: Catalog, topic: str, index: int) -> PartitionId:
    found = catalog.find(topic)
    if found is None:
        raise UnknownTopic(f"Unable to find a topic named {topic}.")
    if not 0 <= index < found.partition_count:
        raise UnknownTopic(f"Unable to find partition {topic}:{index}.")
    return PartitionId(found.id, index)


def _reassign(wanted: Reassignment, catalog: Catalog) -> Sequence[Event]:
    partition = _find_partition(catalog, wanted.topic, wanted.partition)
    if wanted.replica_ids is None:
        return decide_cancel(catalog.cluster, partition)
    return decide_reassign(catalog.cluster, partition, wanted.replica_ids)


def _election(kind: ElectionKind, place: tuple[str, int]) -> Step:
    def decide(catalog: Catalog) -> Sequence[Event]:
        topic, index = place
        found = catalog.find(topic)
        if found is None:
            raise UnknownTopic(f"No such topic as {topic}")
        if not 0 <= index < found.partition_count:
            raise UnknownTopic(f"No such partition as {topic}-{index}")
        return decide_elect(catalog.cluster, PartitionId(found.id, index), kind)

    return decide
