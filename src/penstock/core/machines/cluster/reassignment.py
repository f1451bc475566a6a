"""Reassignments: start, replace, cancel, and the proposals of the ring. Their completion is in transition.py.

While a partition moves, its replicas are those of both assignments. It is complete, in one step, once every added
replica is in sync; a leader that is not part of the new assignment hands over then. Data is deleted after that only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeVar

from penstock.core.errors import InvalidAssignment, NoReassignment
from penstock.core.machines.cluster.assignment import check_replicas
from penstock.core.machines.cluster.events import BrokerSaved, ClusterEvent
from penstock.core.machines.cluster.state import ClusterState, ring_broker
from penstock.core.machines.cluster.transition import Prospect, changed
from penstock.core.machines.cluster.values import NO_LEADER, PartitionReplicas
from penstock.core.model import PartitionId
from penstock.core.placement.rebalance import ReplicaMove, propose_drain, propose_join, propose_rebalance

T = TypeVar("T")

MOVES_PER_CHANGE = 100
"""Moves that one change of the metadata starts or cancels. A decision about thousands takes longer than the pause
between two changes of other brokers, so it would be made again and again on a later state."""


def decide_reassign(
    cluster: ClusterState, partition: PartitionId, target: Sequence[int]
) -> list[ClusterEvent]:
    """Move a partition to these brokers, the preferred leader first. Replaces a reassignment in progress."""
    present = cluster.partition(partition)
    check_replicas(cluster, target)
    return _move(cluster, present, tuple(target))


def decide_cancel(cluster: ClusterState, partition: PartitionId) -> list[ClusterEvent]:
    """Go back to the replicas before the reassignment in progress."""
    present = cluster.partition(partition)
    if not present.is_moving:
        raise NoReassignment(f"{present.place} has no reassignment in progress")
    return _move(cluster, present, present.originals)


def _move(cluster: ClusterState, present: PartitionReplicas, target: tuple[int, ...]) -> list[ClusterEvent]:
    """`originals` remain known until the end: cancelling always leads back to them, whatever was wanted between."""
    originals = present.originals
    removing = tuple(one for one in originals if one not in target)
    replicas = target + removing
    wanted = present._replace(
        replicas=replicas,
        isr=tuple(one for one in replicas if one in present.isr),
        adding=tuple(one for one in target if one not in originals),
        removing=removing,
    )
    events = changed(present, wanted, Prospect(cluster))
    if events:
        _check_data(present, events[0].partition)
    return [*events]


def _check_data(before: PartitionReplicas, after: PartitionReplicas) -> None:
    """Dropping replicas that were being added must neither drop the only complete copy nor the only leader."""
    had_data, has_data = before.isr or before.elr, after.isr or after.elr
    if (had_data and not has_data) or (before.leader != NO_LEADER and after.leader == NO_LEADER):
        raise InvalidAssignment(
            f"{before.place}: none of the brokers {list(after.replicas)} can lead it now, it would need an unclean"
            f" election; start one of them, or let the reassignment to {list(before.target)} complete"
        )


def rebalance_moves(cluster: ClusterState) -> list[ReplicaMove]:
    """The moves that balance the cluster."""
    return _startable(cluster, propose_rebalance(cluster.ring_brokers(), cluster.placements()))


def join_moves(cluster: ClusterState, broker_id: int) -> list[ReplicaMove]:
    """The moves that give a broker its share; none while it cannot take part."""
    brokers = cluster.ring_brokers()
    if ring_broker(cluster.broker(broker_id)) not in brokers:
        return []
    return _startable(cluster, propose_join(brokers, cluster.placements(), broker_id))


def drain_moves(cluster: ClusterState, broker_id: int) -> list[ReplicaMove]:
    """The moves that empty a broker, as far as other brokers can take its replicas."""
    cluster.broker(broker_id)
    return _startable(cluster, propose_drain(cluster.ring_brokers(), cluster.placements(), broker_id))


def _startable(cluster: ClusterState, moves: Sequence[ReplicaMove]) -> list[ReplicaMove]:
    """A partition that moves already is left alone until it has arrived: else it would be copied for nothing."""
    return [move for move in moves if not cluster.partition(move.partition).is_moving]


def in_changes(moves: Sequence[T]) -> Iterator[Sequence[T]]:
    """Moves to start or to cancel, split for `decide_moves` and `decide_stay`."""
    for start in range(0, len(moves), MOVES_PER_CHANGE):
        yield moves[start : start + MOVES_PER_CHANGE]


def decide_moves(cluster: ClusterState, moves: Sequence[ReplicaMove]) -> list[ClusterEvent]:
    """Start proposed moves; not those of partitions that have moved or gone since. Each is of another partition, so
    they are decided on the same state."""
    return [
        event
        for move in moves
        if (present := cluster.find_partition(move.partition)) is not None
        and not present.is_moving
        and present.replicas == move.before
        for event in decide_reassign(cluster, move.partition, move.after)
    ]


def leaving(cluster: ClusterState, broker_id: int) -> list[PartitionId]:
    """Partitions that are being moved away from a broker."""
    return [one.id for one in cluster.held_by(broker_id) if broker_id in one.removing]


def decide_stay(
    cluster: ClusterState, broker_id: int, partitions: Sequence[PartitionId]
) -> list[ClusterEvent]:
    """Cancel the moves of these partitions away from a broker, as far as they are still in progress."""
    return [
        event
        for partition in partitions
        if (present := cluster.find_partition(partition)) is not None and broker_id in present.removing
        for event in decide_cancel(cluster, partition)
    ]


class Upkeep(NamedTuple):
    """Moves of one broker that the controller starts by itself."""

    broker_id: int
    moves: list[ReplicaMove]
    is_share: bool
    """They give a new broker its share; `decide_shared` records that all of them have started."""


def propose_upkeep(cluster: ClusterState) -> Upkeep | None:
    """What is to do, of one broker at a time: empty one that is drained, or give one that has joined its share."""
    for broker in cluster.brokers:
        broker_id = broker.broker_id
        if broker.is_draining and cluster.replica_count(broker_id):
            moves = drain_moves(cluster, broker_id)
            if moves:
                return Upkeep(broker_id, moves, is_share=False)
        elif broker.is_joining and not broker.is_draining and _may_take_share(cluster):
            return Upkeep(broker_id, join_moves(cluster, broker_id), is_share=True)
    return None


def decide_shared(cluster: ClusterState, broker_id: int) -> list[ClusterEvent]:
    """A broker has its share."""
    broker = cluster.find_broker(broker_id)
    if broker is None or not broker.is_joining:
        return []
    return [BrokerSaved(replace(broker, is_joining=False))]


def _may_take_share(cluster: ClusterState) -> bool:
    """While another broker is away, the share would come from the others alone, and be too large once it is back."""
    return all(cluster.can_lead(one.broker_id) or one.is_draining for one in cluster.brokers)
