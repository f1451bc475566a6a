"""Typed questions to other brokers about many partitions or groups at once. Like `peer_calls`, they change nothing.

A question raises if the broker did not answer; errors of single partitions are returned in their place.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from penstock.core.errors import BrokerError
from penstock.core.model import Isolation, TopicPartition
from penstock.node.peers.links import PeerLinks
from penstock.node.peers.peer_calls import (
    NO_REPLICA,
    RemoteOffset,
    by_topic,
    peer_error,
    unasked,
)
from penstock.wire.kafka import messages

LATEST, EARLIEST, NEWEST = -1, -2, -3
"""Kafka's special timestamps."""


class RemoteGroup(NamedTuple):
    """A group that another broker coordinates."""

    group_id: str
    kind: str
    protocol_type: str
    state_name: str


async def list_many_offsets(
    links: PeerLinks,
    broker_id: int,
    wanted: Sequence[tuple[TopicPartition, int]],
    *,
    isolation: Isolation,
    timeout_ms: int,
) -> list[RemoteOffset | BrokerError]:
    """The offset for each partition and timestamp, in order. A partition may be asked for several timestamps."""
    request = messages.ListOffsetsRequest
    topics = [
        request.ListOffsetsTopic(
            name=name,
            partitions=[
                request.ListOffsetsPartition(partition_index=place.partition, timestamp=timestamp_ms)
                for place, timestamp_ms in some
            ],
        )
        for name, some in _runs(wanted)
    ]
    response = await links.call(
        broker_id,
        request(replica_id=NO_REPLICA, isolation_level=int(isolation), topics=topics, timeout_ms=timeout_ms),
        timeout_ms=timeout_ms,
    )
    rows = [(TopicPartition(topic.name, one.partition_index), one) for topic in response.topics
            for one in topic.partitions]  # fmt: skip
    if [place for place, _ in rows] != [place for place, _ in wanted]:
        raise unasked(broker_id, response)
    return [
        peer_error(broker_id, one.error_code)
        if one.error_code
        else RemoteOffset(one.offset, one.timestamp, one.leader_epoch)
        for _, one in rows
    ]


def _runs(
    wanted: Sequence[tuple[TopicPartition, int]],
) -> Iterator[tuple[str, list[tuple[TopicPartition, int]]]]:
    """Neighbours of one topic together, so that the response has the order of the request."""
    run: list[tuple[TopicPartition, int]] = []
    for one in wanted:
        if run and run[0][0].topic != one[0].topic:
            yield run[0][0].topic, run
            run = []
        run.append(one)
    if run:
        yield run[0][0].topic, run


async def describe_sizes(
    links: PeerLinks, broker_id: int, places: Iterable[TopicPartition], *, timeout_ms: int
) -> Mapping[TopicPartition, int]:
    """The sizes of partitions in bytes; without those that the broker does not lead."""
    request = messages.DescribeLogDirsRequest
    topics = [
        request.DescribableLogDirTopic(topic=name, partitions=indexes)
        for name, indexes in by_topic(places).items()
    ]
    response = await links.call(broker_id, request(topics=topics), timeout_ms=timeout_ms)
    for code in (response.error_code, *(one.error_code for one in response.results)):
        if code:
            raise peer_error(broker_id, code)
    return {
        TopicPartition(topic.name, one.partition_index): one.partition_size
        for result in response.results
        for topic in result.topics
        for one in topic.partitions
    }


async def list_groups(links: PeerLinks, broker_id: int, *, timeout_ms: int) -> list[RemoteGroup]:
    """The groups that a broker coordinates."""
    response = await links.call(broker_id, messages.ListGroupsRequest(), timeout_ms=timeout_ms)
    if response.error_code:
        raise peer_error(broker_id, response.error_code)
    return [
        RemoteGroup(one.group_id, one.group_type, one.protocol_type, one.group_state)
        for one in response.groups
    ]
