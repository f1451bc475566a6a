"""The cluster state: brokers, placed partitions, and the load that the placement counts. Decides nothing.

A cluster without registered brokers is a single node: none of its partitions is placed, and that node leads them all.
`apply` writes and never fails; the modules beside this one decide.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy

from penstock.core.errors import StaleBrokerEpoch, UnknownBroker, UnknownTopic
from penstock.core.machines.cluster.events import (
    BrokerRemoved,
    BrokerSaved,
    ClusterEvent,
    ClusterSaved,
    LinkKeySaved,
    PartitionRemoved,
    PartitionSaved,
)
from penstock.core.machines.cluster.values import BrokerRegistration, PartitionReplicas
from penstock.core.model import PartitionId
from penstock.core.placement.ring import BrokerLoad, RingBroker


class ClusterState:
    """All brokers and partitions. What a topic's settings say is not state here: `isr_size_min` is its
    `min.insync.replicas`, `may_elect_unclean` its `unclean.leader.election.enable`, and `is_fsync` whether its records
    are acknowledged after they were flushed to disk."""

    def __init__(
        self,
        isr_size_min: Callable[[bytes], int] = lambda _: 1,
        may_elect_unclean: Callable[[bytes], bool] = lambda _: False,
        is_fsync: Callable[[bytes], bool] = lambda _: False,
    ) -> None:
        self.isr_size_min = isr_size_min
        self.may_elect_unclean = may_elect_unclean
        self.is_fsync = is_fsync
        self.cluster_id: str | None = None
        self.broker_epoch = 0
        """The highest broker epoch ever assigned."""
        self.link_key: bytes | None = None
        """What brokers prove to each other on links; None: no broker has joined a cluster yet."""
        self._brokers: dict[int, BrokerRegistration] = {}
        self._topics: dict[bytes, dict[int, PartitionReplicas]] = {}
        self._leaders: dict[int, int] = {}
        self._replicas: dict[int, int] = {}
        self._owned: set[bytes] | None = None
        """In a draft: the topics whose partitions were copied already. None: this is no draft."""

    # --- reading ---

    @property
    def has_brokers(self) -> bool:
        """Whether brokers are registered; else this is a single node, and partitions are not placed."""
        return bool(self._brokers)

    @property
    def brokers(self) -> list[BrokerRegistration]:
        """All registered brokers by id."""
        return [self._brokers[broker_id] for broker_id in sorted(self._brokers)]

    def find_broker(self, broker_id: int) -> BrokerRegistration | None:
        return self._brokers.get(broker_id)

    def broker(self, broker_id: int, epoch: int | None = None) -> BrokerRegistration:
        """A registered broker. Raises UnknownBroker, or StaleBrokerEpoch if `epoch` is given and not the current
        one."""
        found = self._brokers.get(broker_id)
        if found is None:
            raise UnknownBroker(f"broker {broker_id} is not registered")
        if epoch is not None and epoch != found.epoch:
            raise StaleBrokerEpoch(
                f"broker {broker_id} has epoch {found.epoch}, not {epoch}: it registered again since"
            )
        return found

    def is_fenced(self, broker_id: int) -> bool:
        """Whether the broker is fenced or unknown."""
        found = self._brokers.get(broker_id)
        return found is None or found.is_fenced

    def can_lead(self, broker_id: int) -> bool:
        """Whether the broker may become a leader or join an ISR."""
        found = self._brokers.get(broker_id)
        return found is not None and not found.is_fenced and not found.is_stopping

    def find_partition(self, partition: PartitionId) -> PartitionReplicas | None:
        """A placed partition; None on a single node, and for partitions that do not exist."""
        return self._topics.get(partition.topic_id, {}).get(partition.partition)

    def partition(self, partition: PartitionId) -> PartitionReplicas:
        found = self.find_partition(partition)
        if found is None:
            raise UnknownTopic(
                f"there is no partition {partition.partition} of topic {partition.topic_id.hex()}"
            )
        return found

    def partitions_of(self, topic_id: bytes) -> list[PartitionReplicas]:
        """The placed partitions of a topic by index."""
        return [one for _, one in sorted(self._topics.get(topic_id, {}).items())]

    def partitions(self) -> Iterator[PartitionReplicas]:
        """All placed partitions, by topic id and index."""
        for topic_id in sorted(self._topics):
            yield from self.partitions_of(topic_id)

    def held_by(self, broker_id: int) -> list[PartitionReplicas]:
        """The partitions of which the broker has a replica."""
        return [one for one in self.partitions() if broker_id in one.replicas]

    # --- load ---

    def ring_brokers(self) -> list[RingBroker]:
        """The brokers on which replicas can be placed now."""
        return [
            ring_broker(one) for one in self.brokers if self.can_lead(one.broker_id) and not one.is_draining
        ]

    def load(self, topic_id: bytes) -> BrokerLoad:
        """The load of all brokers, as the placement of more partitions of this topic counts it."""
        load = BrokerLoad(dict(self._leaders), dict(self._replicas))
        for one in self._topics.get(topic_id, {}).values():
            leader = one.target[0]
            load.topic_leaders[leader] = load.topic_leaders.get(leader, 0) + 1
        return load

    def replica_count(self, broker_id: int) -> int:
        """How many replicas the broker has once all reassignments in progress are complete."""
        return self._replicas.get(broker_id, 0)

    def placements(self) -> Mapping[PartitionId, tuple[int, ...]]:
        """The replicas of every partition once all reassignments in progress are complete."""
        return {one.id: one.target for one in self.partitions()}

    # --- applying ---

    def draft(
        self,
        isr_size_min: Callable[[bytes], int],
        may_elect_unclean: Callable[[bytes], bool],
        is_fsync: Callable[[bytes], bool],
    ) -> ClusterState:
        """A copy for tentative changes. Partitions are copied with the first change of their topic."""
        draft = copy(self)
        draft.isr_size_min, draft.may_elect_unclean = isr_size_min, may_elect_unclean
        draft.is_fsync = is_fsync
        draft._brokers, draft._topics = dict(self._brokers), dict(self._topics)
        draft._leaders, draft._replicas = dict(self._leaders), dict(self._replicas)
        draft._owned = set()
        return draft

    def removals(self) -> list[ClusterEvent]:
        """Events that would remove everything that has a key of its own."""
        return [
            *(BrokerRemoved(broker_id) for broker_id in sorted(self._brokers)),
            *(PartitionRemoved(one.topic_id, one.partition) for one in self.partitions()),
        ]

    def removals_of(self, topic_id: bytes) -> list[PartitionRemoved]:
        """Events that remove the partitions of a topic."""
        return [PartitionRemoved(topic_id, one.partition) for one in self.partitions_of(topic_id)]

    def apply(self, event: ClusterEvent) -> None:
        """Apply an event. Never fails: any event may follow any other, because the log may be compacted."""
        match event:
            case ClusterSaved(cluster_id, broker_epoch):
                self.cluster_id, self.broker_epoch = cluster_id, broker_epoch
            case LinkKeySaved(link_key):
                self.link_key = link_key
            case BrokerSaved(broker):
                self._brokers[broker.broker_id] = broker
            case BrokerRemoved(broker_id):
                self._brokers.pop(broker_id, None)
            case PartitionSaved(partition):
                partitions = self._writable(partition.topic_id)
                self._count(partitions.get(partition.partition), -1)
                partitions[partition.partition] = partition
                self._count(partition, 1)
            case PartitionRemoved(topic_id, index):
                partitions = self._writable(topic_id)
                self._count(partitions.pop(index, None), -1)
                if not partitions:
                    del self._topics[topic_id]

    def _writable(self, topic_id: bytes) -> dict[int, PartitionReplicas]:
        partitions = self._topics.setdefault(topic_id, {})
        if self._owned is not None and topic_id not in self._owned:
            self._owned.add(topic_id)
            partitions = self._topics[topic_id] = dict(partitions)
        return partitions

    def _count(self, partition: PartitionReplicas | None, change: int) -> None:
        if partition is None:
            return
        target = partition.target
        _add(self._leaders, target[:1], change)
        _add(self._replicas, target, change)


def ring_broker(broker: BrokerRegistration) -> RingBroker:
    """The broker as the ring sees it."""
    return RingBroker(broker.broker_id, broker.rack or f"broker {broker.broker_id}")


def _add(counts: dict[int, int], broker_ids: Iterable[int] | Sequence[int], change: int) -> None:
    for broker_id in broker_ids:
        count = counts.get(broker_id, 0) + change
        if count:
            counts[broker_id] = count
        else:
            del counts[broker_id]
