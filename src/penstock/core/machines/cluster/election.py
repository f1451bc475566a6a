"""Leader election: a pure choice among the replicas of one partition. transition.py puts it into effect.

Order: the present leader; a member of the ISR; if the ISR is empty, a member of the ELR; if that is empty too, the last
leader, whose records may be incomplete. Any other replica only in an unclean election, which an administrator asks
for or the topic allows. A fenced broker is never chosen. Of several members those come first that have not returned
lately, because clients may not be connected to them yet; then the order of the replicas counts.
"""

from __future__ import annotations

from enum import IntEnum
from typing import NamedTuple, Protocol

from penstock.core.machines.cluster.values import NO_LEADER, PartitionReplicas


class ElectionKind(IntEnum):
    """What an administrator may ask for; numbers as in Kafka. Other elections keep partitions online."""

    PREFERRED = 0
    UNCLEAN = 1


class Eligibility(Protocol):
    """What an election has to know about brokers."""

    def is_fenced(self, broker_id: int) -> bool: ...

    def can_lead(self, broker_id: int) -> bool: ...

    def recency(self, broker_id: int) -> int:
        """0 for a broker that has not returned lately; the higher, the later it returned."""


class Elected(NamedTuple):
    """The outcome: NO_LEADER if nobody may lead. After an unclean one, records may be missing."""

    leader: int
    is_unclean: bool = False


def elect(
    partition: PartitionReplicas, eligibility: Eligibility, kind: ElectionKind | None = None
) -> Elected:
    """The leader of a partition with this ISR and ELR; `partition.leader` is the present one."""
    preferred = partition.target[0]
    if kind is ElectionKind.PREFERRED and preferred in partition.isr and eligibility.can_lead(preferred):
        return Elected(preferred)
    leader = partition.leader
    candidates = partition.isr or partition.elr
    if leader in candidates and eligibility.can_lead(leader):
        return Elected(leader)
    willing = [one for one in partition.replicas if one in candidates and eligibility.can_lead(one)]
    if willing:
        return Elected(min(willing, key=eligibility.recency))
    if leader in partition.isr and not eligibility.is_fenced(leader):
        return Elected(leader)  # it is stopping, and nobody can take over
    last = partition.last_leader
    if not candidates and last in partition.replicas and eligibility.can_lead(last):
        return Elected(last, is_unclean=True)
    if kind is ElectionKind.UNCLEAN:
        for one in partition.replicas:
            if eligibility.can_lead(one):
                return Elected(one, is_unclean=True)
    return Elected(NO_LEADER)
