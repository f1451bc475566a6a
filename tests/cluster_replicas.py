"""A model of what the brokers of a cluster hold: tells whether a new leader has every committed record."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event, encode, key_of
from penstock.core.machines.cluster.values import PartitionReplicas
from penstock.core.model import PartitionId

NOTHING = -1
"""A replica without any record."""


class Replicas:
    """What the brokers hold: per partition, how many records are committed and how many each broker has."""

    def __init__(self) -> None:
        self.committed: dict[PartitionId, int] = {}
        self.held: dict[PartitionId, dict[int, int]] = {}

    def place(self, partition: PartitionReplicas) -> None:
        held = self.held.setdefault(partition.id, dict.fromkeys(partition.isr or partition.elr, 0))
        self.committed.setdefault(partition.id, 0)
        self.held[partition.id] = {one: held.get(one, NOTHING) for one in partition.replicas}

    def remove(self, partition: PartitionId) -> None:
        del self.committed[partition], self.held[partition]

    def commit(self, partition: PartitionReplicas) -> None:
        self.committed[partition.id] += 1
        for one in partition.isr:
            self.held[partition.id][one] = self.committed[partition.id]

    def catch_up(self, partition: PartitionId, broker_id: int) -> None:
        """Fetch from the leader to its end."""
        if broker_id in self.held[partition]:
            self.held[partition][broker_id] = self.committed[partition]

    def lose(self, broker_id: int) -> None:
        """Everything that a broker holds is gone."""
        for held in self.held.values():
            if broker_id in held:
                held[broker_id] = NOTHING

    def lead(self, before: PartitionReplicas, after: PartitionReplicas) -> None:
        held, committed = self.held[after.id][after.leader], self.committed[after.id]
        was_candidate = after.leader in before.isr or after.leader in before.elr
        if was_candidate or not after.is_recovering:
            assert held == committed, "the new leader lacks committed records"
        else:
            assert after.isr == (after.leader,)
            self.committed[after.id] = max(held, 0)
            # Followers truncate to what the leader has; until then nobody else counts as complete.
            self.held[after.id] = dict.fromkeys(after.replicas, NOTHING)
            self.held[after.id][after.leader] = self.committed[after.id]


def compacted(events: Sequence[Event]) -> list[Event]:
    """A snapshot: the last event of each key, without tombstones."""
    last = {key_of(event): event for event in events}
    return [event for event in last.values() if encode(event)[1] is not None]


def state(catalog: Catalog) -> object:
    cluster = catalog.cluster
    return (
        catalog.topics,
        cluster.cluster_id,
        cluster.broker_epoch,
        cluster.brokers,
        list(cluster.partitions()),
        cluster.ring_brokers(),
        [cluster.load(topic.id) for topic in catalog.topics],
        {topic.id: cluster.isr_size_min(topic.id) for topic in catalog.topics},
    )
