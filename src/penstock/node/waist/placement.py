"""Partition placement for tools: reassignments and elections on a single node, which change nothing.

With one replica per partition the preferred replica always leads, and no partition is ever moved.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from penstock.core.access import CLUSTER, Operation
from penstock.core.errors import BrokerError, InvalidAssignment, UnknownTopic
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.routes import Routes


class Reassignment(NamedTuple):
    """The wanted replicas of a partition; None cancels a reassignment."""

    topic: str
    partition: int
    replica_ids: Sequence[int] | None


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

    def reassignments(self, session: Session) -> Sequence[Reassignment]:
        """The reassignments in progress."""
        self._authorization.authorize(session, Operation.DESCRIBE, CLUSTER)
        return []

    def authorize_changes(self, session: Session) -> None:
        """Raise unless the caller may change the placement of partitions."""
        self._authorization.authorize(session, Operation.ALTER, CLUSTER)

    def reassign(self, session: Session, wanted: Reassignment) -> PlacementOutcome | BrokerError:
        """A partition can be assigned to this broker only, and there is no reassignment to cancel."""
        try:
            self.authorize_changes(session)
            count = len(self._partitions_of(wanted.topic))
            if not count:
                raise UnknownTopic(f"Unable to find a topic named {wanted.topic}.")
            if not 0 <= wanted.partition < count:
                raise UnknownTopic(f"Unable to find partition {wanted.topic}:{wanted.partition}.")
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

    def leaderless(self, session: Session) -> list[tuple[str, list[int]]]:
        """Every topic with its offline partitions."""
        self.authorize_changes(session)
        return [
            (topic.name, [one.index for one in self._partitions_of(topic.name) if one.failure is not None])
            for topic in self._broker.catalog.topics
        ]

    def elect(self, session: Session, topic: str, index: int) -> PlacementOutcome | BrokerError:
        """No election is needed: every online partition is led by its only replica."""
        try:
            self.authorize_changes(session)
        except BrokerError as error:
            return error
        partitions = self._partitions_of(topic)
        if not partitions:
            return UnknownTopic(f"No such topic as {topic}")
        if not 0 <= index < len(partitions):
            return UnknownTopic(f"No such partition as {topic}-{index}")
        return PlacementOutcome.NOT_NEEDED if partitions[index].failure is None else PlacementOutcome.OFFLINE
