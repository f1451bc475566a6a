"""The health of placed partitions: without a leader, with too few replicas in sync, or with as few as are allowed.

Counts as Kafka does: replicas that are being added are not missed, and a minimum above the replication factor is the
replication factor.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from penstock.core.machines.cluster.values import NO_LEADER, PartitionReplicas


class FencedBrokers(Protocol):
    """What the health has to know about brokers."""

    def is_fenced(self, broker_id: int) -> bool: ...


class PartitionHealth(NamedTuple):
    """What is wrong with a partition. An offline one lacks its in-sync replicas too."""

    is_offline: bool
    """Nobody leads it."""
    is_under_replicated: bool
    """Fewer replicas are in sync than it has."""
    is_under_min_isr: bool
    """Fewer are in sync than `min.insync.replicas`: writes with acks=all are refused."""
    is_at_min_isr: bool
    """As many are in sync as `min.insync.replicas`: writes stop with the next failure."""


SINGLE_ONLINE = PartitionHealth(
    is_offline=False, is_under_replicated=False, is_under_min_isr=False, is_at_min_isr=True
)
"""The health of a partition that is not placed: its only replica is on a single node."""
SINGLE_OFFLINE = PartitionHealth(
    is_offline=True, is_under_replicated=True, is_under_min_isr=True, is_at_min_isr=False
)


def isr_size_min_of(partition: PartitionReplicas, isr_size_min: int) -> int:
    """How many in-sync replicas writes with acks=all need."""
    return min(isr_size_min, len(partition.replicas) - len(partition.adding))


def health_of(partition: PartitionReplicas, isr_size_min: int, brokers: FencedBrokers) -> PartitionHealth:
    """`isr_size_min`: the topic's `min.insync.replicas`."""
    in_sync = [one for one in partition.isr if not brokers.is_fenced(one)]
    settled = sum(one not in partition.adding for one in in_sync)
    needed = isr_size_min_of(partition, isr_size_min)
    return PartitionHealth(
        is_offline=brokers.is_fenced(partition.leader),
        is_under_replicated=len(in_sync) < len(partition.replicas) - len(partition.adding),
        is_under_min_isr=settled < needed,
        is_at_min_isr=settled == needed,
    )


def last_known_of(partition: PartitionReplicas) -> tuple[int, ...]:
    """The last known leader, as Kafka tells it in the last known ELR; empty while there is a leader."""
    return () if partition.last_leader == NO_LEADER else (partition.last_leader,)
