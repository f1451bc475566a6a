"""Reads from the replica in the consumer's rack, as KIP-392 describes them.

A leader refers consumers that name their rack to a replica there. It must be in sync, not fenced or stopping, and have
the offset. That replica serves what is committed as far as it knows. It refuses once it is not in sync any more: the
consumer then asks the leader again, which knows a better one.
"""

from __future__ import annotations

from penstock.core.errors import NotLeader
from penstock.core.machines.cluster.values import BrokerRegistration
from penstock.core.model import PartitionId, TopicRef
from penstock.core.replication.tracker import FollowerProgress
from penstock.node.broker import Broker
from penstock.node.cluster.read_replica import ReadReplica
from penstock.node.replicas.partition import Partition
from penstock.node.waist.routes import Routes

NO_PREFERENCE = -1


class RackReads:
    """Finds the replica from which a consumer with a rack should read."""

    def __init__(self, broker: Broker, routes: Routes) -> None:
        self._broker = broker
        self._find = routes.partition
        self._is_on = broker.settings.read_replica is ReadReplica.RACK

    def find(self, topic: TopicRef, index: int, offset: int) -> Partition:
        """A partition that is led here, or followed in sync. Raises NotLeader."""
        try:
            return self._find(topic, index)
        except NotLeader:
            found = self._followed(topic, index) if self._is_on else None
            # An offset before the start of this copy may be available elsewhere: the leader decides about it.
            if found is None or offset < found.start_offset:
                raise
        found.note_reader()
        return found

    def _followed(self, topic: TopicRef, index: int) -> Partition | None:
        catalog, own_id = self._broker.catalog, self._broker.identity.node_id
        known = catalog.find(topic) if isinstance(topic, str) else catalog.topic_by_id(topic)
        if known is None:
            return None
        place = PartitionId(known.id, index)
        held, placed = self._broker.find_held(place), catalog.cluster.find_partition(place)
        is_in_sync = placed is not None and own_id in placed.isr and not catalog.cluster.is_fenced(own_id)
        return held if is_in_sync and held is not None and held.failure is None else None

    def preferred(self, partition: Partition, rack: str, offset: int) -> int:
        """The broker from which to read instead; NO_PREFERENCE: from this one."""
        replication, cluster = self._broker.replication, self._broker.catalog.cluster
        if not self._is_on or replication is None or not partition.is_leader:
            return NO_PREFERENCE
        own = cluster.find_broker(self._broker.identity.node_id)
        led = replication.leading.find(PartitionId(partition.topic_id, partition.index))
        if led is None or own is None or own.rack == rack:
            return NO_PREFERENCE
        candidates: list[tuple[int, float, int]] = []
        for broker_id, progress in led.tracker.followers():
            if broker_id not in led.tracker.placed.isr or not cluster.can_lead(broker_id) or progress is None:
                continue
            if _can_serve(cluster.find_broker(broker_id), progress, rack, offset):
                candidates.append((progress.fetch.offset, progress.caught_up_s, -broker_id))
        return -max(candidates)[2] if candidates else NO_PREFERENCE


def _can_serve(
    registered: BrokerRegistration | None, progress: FollowerProgress, rack: str, offset: int
) -> bool:
    fetch = progress.fetch
    return (
        registered is not None
        and registered.rack == rack
        and registered.epoch == fetch.broker_epoch
        and fetch.start_offset <= offset <= fetch.offset
    )
