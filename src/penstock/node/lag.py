"""Computes the lag of groups from state in memory. Reads no records and does not wait.

A group has a lag in every partition of the topics in which it has committed offsets; in partitions without a committed
offset, all records count. Offsets count once they are appended, durable or not yet. What other brokers lead is not in
memory: the caller asks for it, or does without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from penstock.core.errors import BrokerError
from penstock.core.machines.offsets.offsets import Committed
from penstock.core.model import TopicPartition
from penstock.node.broker import Broker


class Lag(NamedTuple):
    """The lag of one group in one partition. `committed_offset` is None if it never committed there."""

    place: TopicPartition
    committed_offset: int | None
    end_offset: int
    records: int
    error: BrokerError | None = None
    """Why end offset and lag are not known; they are -1 and 0 then."""


def committed_here(broker: Broker, group_id: str) -> Mapping[TopicPartition, Committed]:
    """The committed offsets of a group that this broker coordinates. Raises while it does not."""
    return broker.group_coordinator.groups.shard_of(group_id).roster.offsets.of_group(group_id)


def lag_of(broker: Broker, group_id: str) -> Iterator[Lag]:
    """The lag of a group that this broker coordinates, in partitions of other brokers as far as it was learnt. Raises
    as above."""
    return lag_behind(broker, committed_here(broker, group_id), broker.group_coordinator.bounds_elsewhere)


def lag_behind(
    broker: Broker,
    committed: Mapping[TopicPartition, Committed],
    elsewhere: Mapping[TopicPartition, tuple[int, int] | BrokerError] | None = None,
) -> Iterator[Lag]:
    """The lag by partition, sorted, of a group with these committed offsets.

    `elsewhere`: start and end offset of partitions that other brokers lead; those not in it are left out.
    """
    for topic in dict.fromkeys(place.topic for place in committed):
        bounds: dict[int, tuple[int, int] | BrokerError] = {
            one.index: (one.start_offset, one.high_watermark) for one in broker.partitions_of(topic)
        }
        bounds |= {place.partition: one for place, one in (elsewhere or {}).items() if place.topic == topic}
        for index, found in sorted(bounds.items()):
            place = TopicPartition(topic, index)
            entry = committed.get(place)
            offset = None if entry is None else entry.offset
            if isinstance(found, BrokerError):
                yield Lag(place, offset, -1, 0, found)
            else:
                start, end = found
                yield Lag(place, offset, end, max(0, end - max(start, offset or 0)))
