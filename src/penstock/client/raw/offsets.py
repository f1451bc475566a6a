"""Looks up offsets by timestamp (or earliest and latest) and commits group offsets. Never reads records."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.client.errors import ClientError, NotFound, Refused, TimedOut
from penstock.client.raw.cluster import (
    API_NAMES,
    MOVED,
    RETRIABLE,
    Attempts,
    Cluster,
    Coordinator,
    Leader,
    Node,
    TopicPartition,
)
from penstock.wire.kafka import ApiKey, ErrorCode, error_name, messages

LATEST, EARLIEST = -1, -2
"""Kafka's special timestamps for the end and the start of the log."""

NO_OFFSET = -1
"""Returned for a timestamp after the last record."""

READ_UNCOMMITTED, READ_COMMITTED = 0, 1

_CLIENT = -1
_PARTITIONS_PER_REQUEST = 1_000
_COMMIT_VERSION_MAX = 8


def list_offsets(
    cluster: Cluster, times_ms: Mapping[TopicPartition, int], isolation: int
) -> dict[TopicPartition, int]:
    """The offset of the first record at or after each timestamp, which may be LATEST or EARLIEST."""
    found: dict[TopicPartition, int] = {}
    for attempt in Attempts(cluster.access, API_NAMES[ApiKey.LIST_OFFSETS]):
        if len(found) == len(times_ms):
            break
        with attempt:
            for node_id, places in cluster.led_by(times_ms.keys() - found.keys()).items():
                by_place = {place: times_ms[place] for place in places}
                request = _list_request(by_place, isolation)
                _take_listed(cluster, cluster.ask_once(ApiKey.LIST_OFFSETS, request, Node(node_id)), found)
    return found


def known_offsets(
    cluster: Cluster, leaders: Mapping[TopicPartition, int], time_ms: int
) -> dict[TopicPartition, int]:
    """The same for the partitions whose leader answers, without retries: for overviews, which must not wait."""
    by_leader: dict[int, list[TopicPartition]] = {}
    for place in sorted(leaders):
        by_leader.setdefault(leaders[place], []).append(place)
    found: dict[TopicPartition, int] = {}
    for node_id, places in sorted(by_leader.items()):
        if node_id < 0:
            continue  # an election is in progress
        for first in range(0, len(places), _PARTITIONS_PER_REQUEST):
            some = dict.fromkeys(places[first : first + _PARTITIONS_PER_REQUEST], time_ms)
            try:
                request = _list_request(some, READ_UNCOMMITTED)
                response = cluster.ask_once(ApiKey.LIST_OFFSETS, request, Node(node_id))
            except ClientError:
                break  # this broker is gone: its partitions stay unknown
            for topic in response.topics:
                for part in topic.partitions:
                    if not part.error_code:
                        found[TopicPartition(topic.name, part.partition_index)] = part.offset
    return found


def _list_request(times_ms: Mapping[TopicPartition, int], isolation: int) -> messages.ListOffsetsRequest:
    request = messages.ListOffsetsRequest
    topics: dict[str, list[messages.ListOffsetsRequest.ListOffsetsPartition]] = {}
    for place, time_ms in times_ms.items():
        part = request.ListOffsetsPartition(partition_index=place.partition, timestamp=time_ms)
        topics.setdefault(place.topic, []).append(part)
    wanted = [request.ListOffsetsTopic(name=name, partitions=parts) for name, parts in topics.items()]
    return request(replica_id=_CLIENT, isolation_level=isolation, topics=wanted)


def _take_listed(
    cluster: Cluster, response: messages.ListOffsetsResponse, found: dict[TopicPartition, int]
) -> None:
    retriable: list[int] = []
    for topic in response.topics:
        for part in topic.partitions:
            place = TopicPartition(topic.name, part.partition_index)
            if part.error_code in RETRIABLE:
                retriable.append(part.error_code)
                if part.error_code in MOVED:
                    cluster.forget(Leader(*place))
            elif part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                raise NotFound(f"there is no partition {place.partition} of {place.topic}")
            elif part.error_code:
                raise Refused(f"{place.topic} partition {place.partition}: {error_name(part.error_code)}")
            else:
                found[place] = part.offset
    if retriable:
        raise TimedOut(error_name(retriable[0]), code=error_name(retriable[0]))


def commit_offsets(cluster: Cluster, group: str, offsets: Mapping[TopicPartition, int]) -> None:
    """Commit offsets for a group without members. Raises ClientError."""
    request = messages.OffsetCommitRequest
    topics: dict[str, list[messages.OffsetCommitRequest.OffsetCommitRequestPartition]] = {}
    for place, offset in sorted(offsets.items()):
        part = request.OffsetCommitRequestPartition(
            partition_index=place.partition, committed_offset=offset, committed_metadata=""
        )
        topics.setdefault(place.topic, []).append(part)
    wanted = [request.OffsetCommitRequestTopic(name=name, partitions=parts) for name, parts in topics.items()]
    body = request(group_id=group, generation_id_or_member_epoch=-1, member_id="", topics=wanted)
    response = cluster.ask(
        ApiKey.OFFSET_COMMIT, body, Coordinator.of_group(group), version_max=_COMMIT_VERSION_MAX
    )
    for topic in response.topics:
        for one in topic.partitions:
            if one.error_code:
                raise Refused(
                    f"group {group}: cannot commit the offset of {topic.name} partition {one.partition_index}: "
                    f"{error_name(one.error_code)}",
                    code=error_name(one.error_code),
                )
