"""Changes of the ISR that a leader asks for, elections, and replicas that have failed.

The premises are checked in one order, against the given state.
The host appends the events at the index of that state, so that a request that was overtaken is refused here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from penstock.core.errors import (
    ElectionNotNeeded,
    Fenced,
    IneligibleReplica,
    InvalidRequest,
    NoEligibleLeader,
    NotController,
    PreferredLeaderUnavailable,
    StalePartitionEpoch,
)
from penstock.core.machines.cluster.election import ElectionKind
from penstock.core.machines.cluster.events import ClusterEvent, PartitionSaved
from penstock.core.machines.cluster.state import ClusterState
from penstock.core.machines.cluster.transition import Prospect, changed
from penstock.core.machines.cluster.values import NO_LEADER, PartitionReplicas
from penstock.core.model import PartitionId


class IsrMember(NamedTuple):
    """A member of the wanted ISR, and the broker epoch in which the leader saw it fetch."""

    broker_id: int
    epoch: int


class IsrChange(NamedTuple):
    """The ISR that a leader wants, and the state on which it bases that."""

    partition: PartitionId
    leader_epoch: int
    partition_epoch: int
    isr: Sequence[IsrMember]
    is_recovering: bool = False


def decide_change_isr(
    cluster: ClusterState, sender: int, sender_epoch: int, wanted: IsrChange
) -> list[ClusterEvent]:
    """Change the ISR of a partition for its leader. May complete a reassignment, and elect another leader then."""
    cluster.broker(sender, sender_epoch)
    present = cluster.partition(wanted.partition)
    _check_epochs(present, sender, wanted)
    _check_members(present, wanted)
    _check_eligible(cluster, present, wanted)
    # In the order of preference, so that the same ISR always has the same form.
    members = {one.broker_id for one in wanted.isr}
    isr = tuple(one for one in present.replicas if one in members)
    return [
        *changed(present, present._replace(isr=isr, is_recovering=wanted.is_recovering), Prospect(cluster))
    ]


def decide_elect(cluster: ClusterState, partition: PartitionId, kind: ElectionKind) -> list[ClusterEvent]:
    """Elect the preferred replica, or, if the partition has no leader, any replica: records may be lost then."""
    present = cluster.partition(partition)
    place, preferred = present.place, present.target[0]
    if kind is ElectionKind.UNCLEAN and present.leader != NO_LEADER:
        raise ElectionNotNeeded(f"{place}: broker {present.leader} leads it")
    if kind is ElectionKind.PREFERRED and present.leader == preferred:
        raise ElectionNotNeeded(f"{place}: the preferred replica {preferred} leads it already")
    events = changed(present, present, Prospect(cluster), kind=kind)
    leader = events[0].partition.leader if events else present.leader
    if kind is ElectionKind.PREFERRED and leader != preferred:
        raise PreferredLeaderUnavailable(
            f"{place}: the preferred replica {preferred} is fenced, stopping, or not in sync"
        )
    if leader == NO_LEADER:
        raise NoEligibleLeader(
            f"{place}: none of the brokers {list(present.replicas)} is available; start one"
        )
    return [*events]


def decide_adopt(topic_id: bytes, indexes: range, broker_id: int, leader_epoch: int) -> list[PartitionSaved]:
    """Place partitions of a single node on it. It leads them once it is unfenced, in a new leader epoch."""
    return [
        PartitionSaved(
            PartitionReplicas(
                topic_id,
                index,
                (broker_id,),
                isr=(),
                leader=NO_LEADER,
                leader_epoch=leader_epoch,
                elr=(broker_id,),
                last_leader=broker_id,
            )
        )
        for index in indexes
    ]


def decide_replica_failed(
    cluster: ClusterState, broker_id: int, broker_epoch: int, partition: PartitionId, leader_epoch: int
) -> list[ClusterEvent]:
    """The replica on this broker cannot be trusted any more: its disk failed, or records are damaged.

    It leaves the ISR, the ELR and the leadership, if another replica is complete; that one leads as soon as it can.
    The only complete replica changes nothing: its broker is still the one to ask for the records. In sync again, it
    returns as any follower does. Fetches of the replica may be on their way, or count for its return already if it was
    out of sync: they tell of records that it may have lost, so a new leader epoch refuses them.
    """
    cluster.broker(broker_id, broker_epoch)
    present = cluster.partition(partition)
    if broker_id not in present.replicas:
        return []
    _check_leader_epoch(present, leader_epoch)
    if not set(present.isr + present.elr) - {broker_id}:
        return []
    return [*changed(present, present, Prospect(cluster), incomplete=[broker_id], fences=True)]


def preferred_elections(cluster: ClusterState, recent: Collection[int] = ()) -> Iterator[PartitionId]:
    """The partitions that their preferred replica could lead, but does not. Partitions that move are left alone, and
    so are brokers that are being emptied or are `recent`."""
    for one in cluster.partitions():
        preferred = one.replicas[0]
        if (
            preferred != one.leader
            and preferred in one.isr
            and preferred not in recent
            and not one.is_moving
            and cluster.can_lead(preferred)
            and not cluster.broker(preferred).is_draining
        ):
            yield one.id


def decide_preferred(
    cluster: ClusterState, count_max: int, recent: Collection[int] = ()
) -> list[ClusterEvent]:
    """Give the leadership of so many partitions back to their preferred replicas, unless these returned lately."""
    return [
        event
        for partition in islice(preferred_elections(cluster, recent), count_max)
        for event in decide_elect(cluster, partition, ElectionKind.PREFERRED)
    ]


def decide_follow_config(
    cluster: ClusterState, topic_id: bytes, isr_size_min: int, *, may_elect_unclean: bool
) -> list[PartitionSaved]:
    """What new settings of a topic mean for its partitions.

    A new `min.insync.replicas` clears the ELR of partitions with a leader: with the new value the leader may commit
    records that those replicas do not have. Without a leader nothing is committed. A topic that now allows unclean
    elections gets leaders where it has none.
    """
    partitions = cluster.partitions_of(topic_id)
    events: list[PartitionSaved] = []
    if isr_size_min != cluster.isr_size_min(topic_id):
        events += [
            PartitionSaved(one._replace(elr=(), partition_epoch=one.partition_epoch + 1))
            for one in partitions
            if one.elr and one.leader != NO_LEADER
        ]
    if may_elect_unclean and not cluster.may_elect_unclean(topic_id):
        for one in partitions:
            if one.leader == NO_LEADER:
                events += changed(one, one, Prospect(cluster), kind=ElectionKind.UNCLEAN)
    return events


def _check_leader_epoch(present: PartitionReplicas, leader_epoch: int) -> None:
    place = present.place
    if leader_epoch > present.leader_epoch:
        raise NotController(f"{place}: the broker knows a later state than this one; retry")
    if leader_epoch < present.leader_epoch:
        raise Fenced(
            f"{place}: leader epoch {leader_epoch} is over, the current one is {present.leader_epoch}"
        )


def _check_epochs(present: PartitionReplicas, sender: int, wanted: IsrChange) -> None:
    place = present.place
    if wanted.partition_epoch > present.partition_epoch:
        raise NotController(f"{place}: the leader knows a later state than this one; retry")
    _check_leader_epoch(present, wanted.leader_epoch)
    if sender != present.leader:
        raise InvalidRequest(f"{place}: broker {sender} is not the leader, which is broker {present.leader}")
    if wanted.partition_epoch < present.partition_epoch:
        raise StalePartitionEpoch(
            f"{place}: partition epoch {wanted.partition_epoch} is over, the current one is"
            f" {present.partition_epoch}"
        )


def _check_members(present: PartitionReplicas, wanted: IsrChange) -> None:
    place, members = present.place, [one.broker_id for one in wanted.isr]
    if len(set(members)) != len(members) or not set(members) <= set(present.replicas):
        raise InvalidRequest(f"{place}: ISR {members} is not a subset of the replicas {present.replicas}")
    if present.leader not in members:
        raise InvalidRequest(f"{place}: ISR {members} does not contain the leader {present.leader}")
    if wanted.is_recovering and not present.is_recovering:
        raise InvalidRequest(f"{place}: a leader that has recovered cannot be recovering again")
    if wanted.is_recovering and len(members) > 1:
        raise InvalidRequest(f"{place}: while the leader recovers, the ISR has no other member")


def _check_eligible(cluster: ClusterState, present: PartitionReplicas, wanted: IsrChange) -> None:
    for broker_id, epoch in wanted.isr:
        if broker_id == present.leader:
            continue  # its epoch was checked, and a stopping leader may have nobody to hand over to yet
        found = cluster.find_broker(broker_id)
        if found is None or not cluster.can_lead(broker_id):
            raise IneligibleReplica(
                f"{present.place}: broker {broker_id} cannot join the ISR: it is fenced or stopping"
            )
        if epoch != found.epoch:
            raise IneligibleReplica(
                f"{present.place}: broker {broker_id} fetched in epoch {epoch}, but registered again since:"
                f" its epoch is {found.epoch}"
            )
