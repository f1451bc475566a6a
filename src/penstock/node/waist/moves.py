"""Moves of partitions between brokers: what is in progress, what balances the cluster or empties a broker, and what an
administrator asks for.

Moves are started and cancelled some at a time, each on the state in which it takes effect: not if its partition
has moved since it was proposed. Copies and handovers are the business of the brokers; what waits for its turn is in the
metadata, so there is nothing to resume.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from penstock.core.access import CLUSTER, Operation
from penstock.core.errors import (
    InvalidAssignment,
    InvalidReplication,
    NoEligibleLeader,
    NoReassignment,
    SingleBroker,
    UnknownTopic,
    message_of,
)
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.core.machines.cluster.brokers import decide_drain
from penstock.core.machines.cluster.reassignment import (
    decide_cancel,
    decide_moves,
    decide_reassign,
    decide_stay,
    drain_moves,
    in_changes,
    leaving,
    rebalance_moves,
)
from penstock.core.machines.cluster.state import ClusterState
from penstock.core.model import PartitionId
from penstock.core.placement.factor import propose_factor
from penstock.core.placement.rebalance import ReplicaMove
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.waist.authorization import Authorization


class PlannedMove(NamedTuple):
    """A partition, its replicas and those that it gets."""

    topic: str
    partition: int
    before: Sequence[int]
    after: Sequence[int]


class WantedReplicas(NamedTuple):
    """The wanted replicas of a partition, or of all partitions of a topic: these brokers, the preferred leader first,
    or as many as `factor` says. Neither cancels the reassignment in progress."""

    topic: str
    partition: int | None = None
    replicas: Sequence[int] | None = None
    factor: int | None = None


class _Target(NamedTuple):
    """A partition and the replicas that it gets; None cancels."""

    partition: PartitionId
    replicas: tuple[int, ...] | None


class OngoingMove(NamedTuple):
    """A move in progress. What only the brokers that take part know is None on others."""

    topic: str
    partition: int
    before: Sequence[int]
    after: Sequence[int]
    leader_id: int
    is_copying: bool | None
    """False while it waits for its turn."""
    copied_bytes: int | None
    bytes_left: int | None
    bytes_per_s: int | None


class MoveVerbs:
    """Shows and starts moves."""

    def __init__(self, broker: Broker, authorization: Authorization) -> None:
        self._broker = broker
        self._authorization = authorization

    # -- what is

    def ongoing(self, session: Session) -> list[OngoingMove]:
        """The moves in progress, with what this broker knows about them."""
        self._authorization.authorize(session, Operation.DESCRIBE, CLUSTER)
        catalog, replication = self._broker.catalog, self._broker.replication
        copies, left = {}, {}
        if replication is not None:
            copies = {(one.topic, one.partition): one for one in replication.following.progress()}
            left = {(one.topic, one.partition): one.bytes_left for one in replication.leading.progress()}
        found = []
        for one in catalog.cluster.partitions():
            if not one.is_moving:
                continue
            place = (catalog.topic_by_id(one.topic_id).name, one.partition)
            copy = copies.get(place)
            found.append(
                OngoingMove(
                    *place,
                    one.originals,
                    one.target,
                    one.leader,
                    None if copy is None else copy.is_copying,
                    None if copy is None else copy.copied_bytes,
                    left.get(place),
                    None if copy is None else round(copy.bytes_per_s),
                )
            )
        return sorted(found)

    # -- what should be

    async def rebalance(self, session: Session, *, is_dry_run: bool) -> list[PlannedMove]:
        """Propose the moves after which all brokers hold about the same number of partitions, and start them."""
        self._check(session)
        moves = rebalance_moves(self._broker.catalog.cluster)
        planned = self._planned(moves)
        if not is_dry_run:
            for some in in_changes(moves):
                await self._broker.change(partial(_decide_moves, some))
        return planned

    async def drain(self, session: Session, broker_id: int, *, is_dry_run: bool) -> list[PlannedMove]:
        """Exclude a broker from placement and propose where its partitions go. The controller starts the moves, and
        later those that cannot be started now."""
        self._check(session)
        draft = self._broker.catalog.draft()
        for event in decide_drain(draft.cluster, broker_id, is_draining=True):
            draft.apply(event)
        if not any(one.broker_id != broker_id for one in draft.cluster.ring_brokers()):
            raise NoEligibleLeader(
                f"no other broker can take the partitions of broker {broker_id}: start one, or stop draining"
            )
        self._check_others(draft.cluster, broker_id)
        planned = self._planned(drain_moves(draft.cluster, broker_id))
        if not is_dry_run:
            await self._broker.change(
                lambda catalog: decide_drain(catalog.cluster, broker_id, is_draining=True)
            )
        return planned

    def _check_others(self, cluster: ClusterState, broker_id: int) -> None:
        """Raise unless the other brokers, those that are away included, can hold all replicas of each partition."""
        others = sum(not one.is_draining for one in cluster.brokers)
        crowded = {
            one.topic_id: len(one.target) for one in cluster.held_by(broker_id) if len(one.target) > others
        }
        if crowded:
            topics = {
                self._broker.catalog.topic_by_id(topic_id).name: count for topic_id, count in crowded.items()
            }
            name, count = min(topics.items())
            more = f" and {len(topics) - 1} more topics" if len(topics) > 1 else ""
            raise NoEligibleLeader(
                f"{name}{more} would have {count} replicas on {others} brokers: start another broker before broker"
                f" {broker_id} is drained, or reduce the replicas with `penstock cluster reassign`"
            )

    async def undrain(self, session: Session, broker_id: int) -> None:
        """Include a broker in the placement again; its moves in progress are cancelled."""
        self._check(session)
        await self._broker.change(lambda catalog: decide_drain(catalog.cluster, broker_id, is_draining=False))
        for some in in_changes(leaving(self._broker.catalog.cluster, broker_id)):
            await self._broker.change(partial(_decide_stay, broker_id, some))

    async def reassign(
        self, session: Session, wanted: Sequence[WantedReplicas], *, is_dry_run: bool
    ) -> list[PlannedMove]:
        """Start, replace or cancel reassignments: all of them, or none if one is refused. Returns those that change
        something."""
        self._check(session)
        catalog = self._broker.catalog
        targets = _targets(catalog, wanted)
        planned = [one for one in map(partial(_plan, catalog), targets) if one is not None]
        if not is_dry_run:
            for some in in_changes(targets):
                await self._broker.change(partial(_decide_targets, some))
        return planned

    def _check(self, session: Session) -> None:
        self._authorization.authorize(session, Operation.ALTER, CLUSTER)
        if not self._broker.catalog.cluster.has_brokers:
            raise SingleBroker("this broker is alone: its partitions cannot be moved; start a cluster")

    def _planned(self, moves: Sequence[ReplicaMove]) -> list[PlannedMove]:
        catalog = self._broker.catalog
        return sorted(
            PlannedMove(
                catalog.topic_by_id(one.partition.topic_id).name,
                one.partition.partition,
                one.before,
                one.after,
            )
            for one in moves
        )


def _decide_moves(moves: Sequence[ReplicaMove], catalog: Catalog) -> Sequence[Event]:
    return decide_moves(catalog.cluster, moves)


def _decide_stay(broker_id: int, partitions: Sequence[PartitionId], catalog: Catalog) -> Sequence[Event]:
    return decide_stay(catalog.cluster, broker_id, partitions)


def _targets(catalog: Catalog, wanted: Sequence[WantedReplicas]) -> list[_Target]:
    """The single partitions; each may be named once."""
    found: dict[PartitionId, _Target] = {}
    for one in wanted:
        partitions = _named(catalog, one)
        for target in (
            _factored(catalog.cluster, one, partitions)
            if one.factor
            else (
                _Target(partition, None if one.replicas is None else tuple(one.replicas))
                for partition in partitions
            )
        ):
            if target.partition in found:
                index = target.partition.partition
                raise InvalidAssignment(f"{one.topic}-{index} is named more than once")
            found[target.partition] = target
    return list(found.values())


def _named(catalog: Catalog, wanted: WantedReplicas) -> list[PartitionId]:
    topic = catalog.topic(wanted.topic)
    if wanted.partition is not None:
        if not 0 <= wanted.partition < topic.partition_count:
            raise UnknownTopic(f"topic {topic.name!r} has no partition {wanted.partition}")
        return [PartitionId(topic.id, wanted.partition)]
    placed = catalog.cluster.partitions_of(topic.id)
    is_cancel = wanted.replicas is None and wanted.factor is None
    return [one.id for one in placed if one.is_moving or not is_cancel]


def _factored(
    cluster: ClusterState, wanted: WantedReplicas, partitions: Sequence[PartitionId]
) -> list[_Target]:
    assert wanted.factor is not None
    placements, brokers = cluster.placements(), cluster.ring_brokers()
    available = {one.broker_id for one in brokers}
    for one in partitions:
        count = len(available.union(placements[one]))
        if wanted.factor > count:
            raise InvalidReplication(
                f"{wanted.topic}-{one.partition} cannot have {wanted.factor} replicas: only {count} brokers can hold"
                " one; start more brokers"
            )
    moves = {
        one.partition: one.after for one in propose_factor(brokers, placements, partitions, wanted.factor)
    }
    return [_Target(one, moves.get(one, placements[one])) for one in partitions]


def _plan(catalog: Catalog, target: _Target) -> PlannedMove | None:
    """What a target changes; None if nothing. Raises if it is refused."""
    present = catalog.cluster.partition(target.partition)
    name = catalog.topic_by_id(target.partition.topic_id).name
    try:
        _decide_target(catalog, target)
    except (InvalidAssignment, NoReassignment) as error:
        raise type(error)(f"{name}-{present.partition}: {message_of(error)}") from error
    after = present.originals if target.replicas is None else target.replicas
    return None if after == present.target else PlannedMove(name, present.partition, present.target, after)


def _decide_target(catalog: Catalog, target: _Target) -> Sequence[Event]:
    if target.replicas is None:
        return decide_cancel(catalog.cluster, target.partition)
    return decide_reassign(catalog.cluster, target.partition, target.replicas)


def _decide_targets(targets: Sequence[_Target], catalog: Catalog) -> Sequence[Event]:
    """Each is of another partition, so they are decided on the same state. A move that is over is not cancelled."""
    events: list[Event] = []
    for target in targets:
        present = catalog.cluster.find_partition(target.partition)
        if present is not None and (present.is_moving or target.replicas is not None):
            events += _decide_target(catalog, target)
    return events
