"""The one way in which a partition changes: from a wanted ISR or wanted replicas to the next state. Decides nothing.

Every change of a partition, whatever its reason, completes a reassignment that can be completed, keeps the ELR, elects
a leader if the present one may not stay, and increases the epochs:

- `partition_epoch` with every change;
- `leader_epoch` with every change of the leader, and whenever a replica is removed or has failed: neither what it last
  heard nor what it last fetched counts any more. Not when the ISR shrinks: that would fence every follower.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from penstock.core.machines.cluster.election import ElectionKind, elect
from penstock.core.machines.cluster.events import PartitionSaved
from penstock.core.machines.cluster.state import ClusterState
from penstock.core.machines.cluster.values import NO_LEADER, PartitionReplicas


@dataclass(frozen=True, slots=True)
class Prospect:
    """The brokers as they will be once a decision took effect: some are fenced, stopping, or active by then."""

    cluster: ClusterState
    fenced: Collection[int] = ()
    stopping: Collection[int] = ()
    active: Collection[int] = ()
    recent: Sequence[int] = ()
    """Brokers that have returned lately, in this order."""

    def is_fenced(self, broker_id: int) -> bool:
        if broker_id in self.fenced:
            return True
        return broker_id not in self.active and self.cluster.is_fenced(broker_id)

    def can_lead(self, broker_id: int) -> bool:
        if broker_id in self.fenced or broker_id in self.stopping:
            return False
        return broker_id in self.active or self.cluster.can_lead(broker_id)

    def recency(self, broker_id: int) -> int:
        return 1 + self.recent.index(broker_id) if broker_id in self.recent else 0


def changed(
    before: PartitionReplicas,
    wanted: PartitionReplicas,
    prospect: Prospect,
    *,
    kind: ElectionKind | None = None,
    incomplete: Collection[int] = (),
    fences: bool = False,
) -> list[PartitionSaved]:
    """The event that brings a partition from its state to what is wanted, as far as the rules allow; none if nothing
    changes. `incomplete` replicas may have lost records: they leave ISR and ELR. With `fences` there is a new leader
    epoch in any case."""
    if kind is None and prospect.cluster.may_elect_unclean(before.topic_id):
        kind = ElectionKind.UNCLEAN
    after = _settled(before, wanted, prospect, kind, incomplete)
    if _completed(after) is not after:  # the election brought the last added replica into the ISR
        after = _settled(after, after, prospect, kind, incomplete)
    if after == before and not fences:
        return []
    removed = set(before.replicas) - set(after.replicas)
    bump = 1 if fences or removed or after.leader != before.leader else 0
    return [
        PartitionSaved(
            after._replace(
                leader_epoch=before.leader_epoch + bump,
                partition_epoch=before.partition_epoch + 1,
            )
        )
    ]


def _settled(
    before: PartitionReplicas,
    wanted: PartitionReplicas,
    prospect: Prospect,
    kind: ElectionKind | None,
    incomplete: Collection[int],
) -> PartitionReplicas:
    """What is wanted, with the reassignment completed, the ELR kept and a leader elected, in this order."""
    alive = [one for one in wanted.isr if one in wanted.replicas and not prospect.is_fenced(one)]
    complete = tuple(one for one in alive if one not in incomplete)
    # A broker that is stopping stays only while nobody can take over: it must not hold back what is committed.
    isr = tuple(filter(prospect.can_lead, complete)) or complete
    isr_size_min = prospect.cluster.isr_size_min(before.topic_id)
    after = _completed(wanted._replace(isr=isr))
    after = _with_elr(before, after, isr_size_min, incomplete)
    after = _with_leader(before, after, prospect, kind, incomplete)
    return after._replace(elr=()) if after.is_isr_sufficient(isr_size_min) else after


def changed_all(
    partitions: Iterable[PartitionReplicas], prospect: Prospect, *, incomplete: Collection[int] = ()
) -> list[PartitionSaved]:
    """The events of partitions of which only the brokers changed."""
    return [event for one in partitions for event in changed(one, one, prospect, incomplete=incomplete)]


def _completed(partition: PartitionReplicas) -> PartitionReplicas:
    """Complete the reassignment once every added replica is in sync and the ISR does not shrink by it.

    A replica that is in both assignments but out of sync must not hold it up. The ISR may only become as small as the
    new assignment is.
    """
    if not partition.is_moving:
        return partition
    target = partition.target
    isr = tuple(one for one in partition.isr if one in target)
    present = sum(one not in partition.adding for one in partition.isr)
    if not isr or not set(partition.adding) <= set(isr) or len(isr) < min(present, len(target)):
        return partition
    return partition._replace(replicas=target, isr=isr, adding=(), removing=())


def _with_elr(
    before: PartitionReplicas, after: PartitionReplicas, isr_size_min: int, incomplete: Collection[int]
) -> PartitionReplicas:
    """While the ISR is below its minimum nothing is committed, so whoever leaves it still has all that was."""
    if after.is_isr_sufficient(isr_size_min):
        return after._replace(elr=())
    elr = tuple(
        one
        for one in after.replicas
        if (one in before.isr or one in before.elr) and one not in after.isr and one not in incomplete
    )
    return after._replace(elr=elr)


def _with_leader(
    before: PartitionReplicas,
    after: PartitionReplicas,
    prospect: Prospect,
    kind: ElectionKind | None,
    incomplete: Collection[int],
) -> PartitionReplicas:
    # An unclean election takes a replica that has just lost records only if nobody else can lead.
    candidates = tuple(sorted(after.replicas, key=lambda one: one in incomplete))
    elected = elect(after._replace(replicas=candidates), prospect, kind)
    if elected.leader == NO_LEADER:
        last = before.leader if before.leader != NO_LEADER else before.last_leader
        if last in incomplete and after.elr:
            # If the ELR loses its members as well, one of them is still a better choice than who lost records first.
            last = after.elr[0]
        return after._replace(leader=NO_LEADER, last_leader=last if last in after.replicas else NO_LEADER)
    if elected.is_unclean:
        return after._replace(
            leader=elected.leader,
            isr=(elected.leader,),
            elr=(),
            last_leader=NO_LEADER,
            is_recovering=True,
        )
    isr = after.isr or (elected.leader,)
    elr = tuple(one for one in after.elr if one not in isr)
    return after._replace(leader=elected.leader, isr=isr, elr=elr, last_leader=NO_LEADER)
