"""Computes the lag of groups from state in memory. Reads no records and does not wait.

A group has a lag in every partition of the topics in which it has committed offsets; in partitions without a committed
offset, all records count. Offsets count once they are appended, durable or not yet. What other brokers lead is not in
memory: the caller asks for it, or does without.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from penstock.core.errors import BrokerError
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


def topics_of(broker: Broker, group_id: str) -> list[str]:
    """The topics in which a group has committed offsets. Raises while the group has no coordinator."""
    committed = broker.group_coordinator.groups.shard_of(group_id).roster.offsets.of_group(group_id)
    return list(dict.fromkeys(place.topic for place in committed))


def lag_of(
    broker: Broker,
    group_id: str,
    elsewhere: Mapping[TopicPartition, tuple[int, int] | BrokerError] | None = None,
) -> Iterator[Lag]:
    """The lag by partition, sorted. Raises while the group has no coordinator.

    `elsewhere`: start and end offset of partitions that other brokers lead; those not in it are left out.
    """
    committed = broker.group_coordinator.groups.shard_of(group_id).roster.offsets.of_group(group_id)
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
