"""The calls of classic groups and committed offsets over a bare connection, in any version."""

from __future__ import annotations

import itertools
from typing import Any

from kafka.protocol.consumer import (
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from kafka.protocol.metadata import FindCoordinatorRequest, MetadataRequest

from compat.raw import RawConnection
from compat.vocabulary import error_name

GROUP = 0
SESSION_MS, REBALANCE_MS = 10_000, 20_000
SUBSCRIPTION = b"\0\0\0\0\0\1\0\5other\xff\xff\xff\xff"


def join_fields(version: int, group: str, member_id: str = "", **changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "group_id": group,
        "session_timeout_ms": SESSION_MS,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": SUBSCRIPTION}],
    }
    if version >= 1:
        fields["rebalance_timeout_ms"] = REBALANCE_MS
    if version >= 5:
        fields["group_instance_id"] = None
    return fields | changes


def joined(connection: RawConnection, version: int, group: str, member_id: str = "", **changes: Any) -> Any:
    """Join; if told to come back with an id, come back."""
    fields = join_fields(version, group, member_id, **changes)
    answer = connection.call(JoinGroupRequest, version, **fields)
    if error_name(answer.error_code) == "MEMBER_ID_REQUIRED":
        fields["member_id"] = answer.member_id
        answer = connection.call(JoinGroupRequest, version, **fields)
    return answer


def synced(connection: RawConnection, version: int, group: str, member: Any, **changes: Any) -> Any:
    fields: dict[str, Any] = {
        "group_id": group,
        "generation_id": member.generation_id,
        "member_id": member.member_id,
        "assignments": [{"member_id": member.member_id, "assignment": b"all of it"}],
    }
    if version >= 5:
        fields |= {"protocol_type": "consumer", "protocol_name": "range"}
    return connection.call(SyncGroupRequest, version, **(fields | changes))


def beat(connection: RawConnection, version: int, group: str, member: Any, **changes: Any) -> str:
    fields = {"group_id": group, "generation_id": member.generation_id, "member_id": member.member_id}
    return error_name(connection.call(HeartbeatRequest, version, **(fields | changes)).error_code)


def left(connection: RawConnection, version: int, group: str, member_id: str) -> list[str]:
    """The error of the whole, then that of each member."""
    fields: dict[str, Any] = {"group_id": group}
    if version >= 3:
        fields["members"] = [{"member_id": member_id, "group_instance_id": None}]
    else:
        fields["member_id"] = member_id
    answer = connection.call(LeaveGroupRequest, version, **fields)
    members = answer.members if version >= 3 else []
    return [error_name(answer.error_code), *(error_name(one.error_code) for one in members)]


def committed(
    connection: RawConnection,
    version: int,
    group: str,
    place: Any,
    offset: int,
    metadata: str = "",
    **changes: Any,
) -> str:
    """The error of the one partition."""
    topic, partition = place
    wanted: dict[str, Any] = {
        "partition_index": partition,
        "committed_offset": offset,
        "committed_metadata": metadata,
    }
    named = {"topic_id": topic} if version >= 10 else {"name": topic}
    fields: dict[str, Any] = {
        "group_id": group,
        "generation_id_or_member_epoch": -1,
        "member_id": "",
        "topics": [{**named, "partitions": [wanted]}],
    }
    answer = connection.call(OffsetCommitRequest, version, **(fields | changes))
    return error_name(answer.topics[0].partitions[0].error_code)


def fetched(connection: RawConnection, version: int, group: str, places: list[Any] | None) -> Any:
    """The answer for the one group: what holds its topics and its error."""
    topics = None
    if places is not None:
        named = "topic_id" if version >= 10 else "name"
        topics = [{named: topic, "partition_indexes": [partition]} for topic, partition in places]
    if version < 8:
        return connection.call(OffsetFetchRequest, version, group_id=group, topics=topics)
    return connection.call(
        OffsetFetchRequest, version, groups=[{"group_id": group, "topics": topics}]
    ).groups[0]


def neighbours(connection: RawConnection, group: str, count: int) -> list[str]:
    """Names of more groups with the same coordinator, for requests about several."""

    def coordinator_of(name: str) -> int:
        return int(connection.call(FindCoordinatorRequest, 2, key=name, key_type=GROUP).node_id)

    here = coordinator_of(group)
    names = (f"{group}-{number}" for number in itertools.count())
    return list(itertools.islice((name for name in names if coordinator_of(name) == here), count))


def topic_id(connection: RawConnection, topic: str) -> Any:
    return connection.call(MetadataRequest, 12, topics=[{"name": topic}]).topics[0].topic_id
