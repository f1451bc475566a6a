"""Moves of partitions between brokers: what is in progress, and what balances the cluster or empties a broker.

Moves are started some at a time, each on the state in which it takes effect: not if its partition has moved since it
was proposed. Copies and handovers are the business of the brokers; what waits for its turn is in the metadata, so there
is nothing to resume.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

from penstock.core.access import CLUSTER, Operation
from penstock.core.errors import InvalidRequest, NoEligibleLeader
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.core.machines.cluster.brokers import decide_drain
from penstock.core.machines.cluster.reassignment import (
    decide_moves,
    decide_undrain,
    drain_moves,
    in_changes,
    rebalance_moves,
)
from penstock.core.machines.cluster.state import ClusterState
from penstock.core.model import PartitionId
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
        return await self._start(session, rebalance_moves, lambda _: [], is_dry_run=is_dry_run)

    async def drain(self, session: Session, broker_id: int, *, is_dry_run: bool) -> list[PlannedMove]:
        """Exclude a broker from placement and move its partitions away. The controller starts what cannot be started
        now."""

        def propose(cluster: ClusterState) -> list[ReplicaMove]:
            cluster.broker(broker_id)
            if not any(one.broker_id != broker_id for one in cluster.ring_brokers()):
                raise NoEligibleLeader(
                    f"no other broker can take the partitions of broker {broker_id}: start one, or stop draining"
                )
            return drain_moves(cluster, broker_id)

        def exclude(cluster: ClusterState) -> list[Event]:
            return [*decide_drain(cluster, broker_id, is_draining=True)]

        return await self._start(session, propose, exclude, is_dry_run=is_dry_run)

    async def undrain(self, session: Session, broker_id: int) -> None:
        """Include a broker in the placement again; its moves in progress are cancelled."""
        self._check(session)
        await self._broker.change(lambda catalog: decide_undrain(catalog.cluster, broker_id))

    def _check(self, session: Session) -> None:
        self._authorization.authorize(session, Operation.ALTER, CLUSTER)
        if not self._broker.catalog.cluster.has_brokers:
            raise InvalidRequest("this broker is alone: its partitions cannot be moved")

    async def _start(
        self,
        session: Session,
        propose: Callable[[ClusterState], list[ReplicaMove]],
        first: Callable[[ClusterState], list[Event]],
        *,
        is_dry_run: bool,
    ) -> list[PlannedMove]:
        """`first` is changed before the moves, which are proposed as if it had been already."""
        self._check(session)
        catalog = self._broker.catalog
        draft = catalog.draft()
        for event in first(catalog.cluster):
            draft.apply(event)
        moves = propose(draft.cluster)
        planned = sorted(_planned(catalog, one) for one in moves)
        if not is_dry_run:
            await self._broker.change(lambda catalog: first(catalog.cluster))
            for some in in_changes(moves):
                await self._broker.change(partial(_decide_moves, some))
        return planned


def _decide_moves(moves: Sequence[ReplicaMove], catalog: Catalog) -> Sequence[Event]:
    return decide_moves(catalog.cluster, moves)


def _planned(catalog: Catalog, move: ReplicaMove) -> PlannedMove:
    place: PartitionId = move.partition
    return PlannedMove(catalog.topic_by_id(place.topic_id).name, place.partition, move.before, move.after)
