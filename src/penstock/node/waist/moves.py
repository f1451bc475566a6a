"""Moves of partitions between brokers: what is in progress, and what balances the cluster or empties a broker.

Moves are started and cancelled some at a time, each on the state in which it takes effect: not if its partition
has moved since it was proposed. Copies and handovers are the business of the brokers; what waits for its turn is in the
metadata, so there is nothing to resume.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from penstock.core.access import CLUSTER, Operation
from penstock.core.errors import NoEligibleLeader, SingleBroker
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.core.machines.cluster.brokers import decide_drain
from penstock.core.machines.cluster.reassignment import (
    decide_moves,
    decide_stay,
    drain_moves,
    in_changes,
    leaving,
    rebalance_moves,
)
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
        planned = self._planned(drain_moves(draft.cluster, broker_id))
        if not is_dry_run:
            await self._broker.change(
                lambda catalog: decide_drain(catalog.cluster, broker_id, is_draining=True)
            )
        return planned

    async def undrain(self, session: Session, broker_id: int) -> None:
        """Include a broker in the placement again; its moves in progress are cancelled."""
        self._check(session)
        await self._broker.change(lambda catalog: decide_drain(catalog.cluster, broker_id, is_draining=False))
        for some in in_changes(leaving(self._broker.catalog.cluster, broker_id)):
            await self._broker.change(partial(_decide_stay, broker_id, some))

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
