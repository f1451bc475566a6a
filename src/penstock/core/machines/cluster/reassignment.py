"""Reassignments: start, replace, cancel, and the proposals of the ring. Their completion is in transition.py.

While a partition moves, its replicas are those of both assignments. It is complete, in one step, once every added
replica is in sync; a leader that is not part of the new assignment hands over then. Data is deleted after that only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from penstock.core.errors import InvalidAssignment, NoReassignment
from penstock.core.machines.cluster.assignment import check_replicas
from penstock.core.machines.cluster.brokers import decide_drain
from penstock.core.machines.cluster.events import BrokerSaved, ClusterEvent
from penstock.core.machines.cluster.state import ClusterState, ring_broker
from penstock.core.machines.cluster.transition import Prospect, changed
from penstock.core.machines.cluster.values import NO_LEADER, PartitionReplicas
from penstock.core.model import PartitionId
from penstock.core.placement.rebalance import ReplicaMove, propose_drain, propose_join, propose_rebalance


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


def decide_moves(cluster: ClusterState, moves: Sequence[ReplicaMove]) -> list[ClusterEvent]:
    """Start proposed moves. Each is of another partition, so they are decided on the same state."""
    return [event for move in moves for event in decide_reassign(cluster, move.partition, move.after)]


def decide_undrain(cluster: ClusterState, broker_id: int) -> list[ClusterEvent]:
    """Include a broker in the placement again, and cancel the moves away from it that are in progress."""
    events = decide_drain(cluster, broker_id, is_draining=False)
    for one in cluster.held_by(broker_id):
        if broker_id in one.removing:
            events += decide_cancel(cluster, one.id)
    return events


def decide_upkeep(cluster: ClusterState) -> list[ClusterEvent]:
    """The moves that the controller starts by itself, of one broker at a time: away from a broker that is drained, or
    the share of one that has joined. None if there is nothing to do."""
    for broker in cluster.brokers:
        if broker.is_draining and cluster.replica_count(broker.broker_id):
            events = decide_moves(cluster, drain_moves(cluster, broker.broker_id))
        elif broker.is_joining and not broker.is_draining and _may_take_share(cluster):
            moves = join_moves(cluster, broker.broker_id)
            events = [BrokerSaved(replace(broker, is_joining=False)), *decide_moves(cluster, moves)]
        else:
            continue
        if events:
            return events
    return []


def _may_take_share(cluster: ClusterState) -> bool:
    """While another broker is away, the share would come from the others alone, and be too large once it is back."""
    return all(cluster.can_lead(one.broker_id) or one.is_draining for one in cluster.brokers)
