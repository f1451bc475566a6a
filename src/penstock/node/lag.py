"""How far groups are behind, worked out from what the node holds. Never reads a record and never waits.

A group is behind in every partition of the topics that it has committed anything in; where it has committed
nothing, everything in the partition counts. Committed offsets are those that are kept, durable or about to be.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from penstock.core.model import TopicPartition
from penstock.node.broker import Broker


class Lag(NamedTuple):
    """One group in one partition. `committed_offset` None: it never committed here."""

    place: TopicPartition
    committed_offset: int | None
    end_offset: int
    records: int


def lag_of(broker: Broker, group_id: str) -> Iterator[Lag]:
    """Partition by partition, sorted. Raises while there is no coordinator for the group."""
    committed = broker.group_coordinator.groups.shard_of(group_id).roster.offsets.of_group(group_id)
    for topic in dict.fromkeys(place.topic for place in committed):
        for partition in broker.partitions_of(topic):
            place = TopicPartition(topic, partition.index)
            found = committed.get(place)
            at = partition.start_offset if found is None else max(found.offset, partition.start_offset)
            end = partition.high_watermark
            yield Lag(place, None if found is None else found.offset, end, max(0, end - at))
