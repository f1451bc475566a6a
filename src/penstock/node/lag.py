"""Computes the lag of groups from state in memory. Reads no records and does not wait.

A group has a lag in every partition of the topics in which it has committed offsets; in partitions without a committed
offset, all records count. Offsets count once they are appended, durable or not yet.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from penstock.core.machines.offsets.offsets import Committed
from penstock.core.model import TopicPartition
from penstock.node.broker import Broker


class Lag(NamedTuple):
    """The lag of one group in one partition. `committed_offset` is None if it never committed there."""

    place: TopicPartition
    committed_offset: int | None
    end_offset: int
    records: int


def lag_of(broker: Broker, group_id: str) -> Iterator[Lag]:
    """The lag by partition, sorted. Raises while the group has no coordinator here."""
    return lag_behind(
        broker, broker.group_coordinator.groups.shard_of(group_id).roster.offsets.of_group(group_id)
    )


def lag_behind(broker: Broker, committed: Mapping[TopicPartition, Committed]) -> Iterator[Lag]:
    """The same for committed offsets that the coordinator of the group has told, wherever it is."""
    for topic in dict.fromkeys(place.topic for place in committed):
        for partition in broker.partitions_of(topic):
            place = TopicPartition(topic, partition.index)
            found = committed.get(place)
            at = partition.start_offset if found is None else max(found.offset, partition.start_offset)
            end = partition.high_watermark
            yield Lag(place, None if found is None else found.offset, end, max(0, end - at))
