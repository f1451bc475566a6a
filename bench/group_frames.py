"""Requests of group members as complete frames, built before the clock starts. Does no I/O."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.apps.bench.harness.frames import frame_of
from penstock.core.machines.consumer_group.protocol import encode_assignment
from penstock.core.machines.record_fields import int16, int32, text
from penstock.wire.kafka import ApiKey, messages

FIND_COORDINATOR_VERSION = 4
JOIN_VERSION = 9
JOIN_AT_ONCE_VERSION = 3
"""The last version in which a member without an id joins with a single request."""
SYNC_VERSION = 5
HEARTBEAT_VERSION = 4
COMMIT_VERSION = 8
OFFSETS_VERSION = 8
PROTOCOL_TYPE = "consumer"
PROTOCOL = "range"
SESSION_MS = 600_000
"""Long enough for members that send requests only when a row needs them."""
NO_MEMBER = ""


def find_coordinator_frame(group: str) -> bytes:
    """The first such request creates the offsets topic."""
    body = messages.FindCoordinatorRequest(key_type=0, coordinator_keys=[group])
    return frame_of(ApiKey.FIND_COORDINATOR, FIND_COORDINATOR_VERSION, body)


def join_frame(group: str, member_id: str, topic: str, version: int = JOIN_VERSION) -> bytes:
    """Join or rejoin with a subscription to one topic."""
    request = messages.JoinGroupRequest
    subscription = int16(0) + int32(1) + text(topic) + int32(-1)
    body = request(
        group_id=group,
        session_timeout_ms=SESSION_MS,
        rebalance_timeout_ms=SESSION_MS,
        member_id=member_id,
        protocol_type=PROTOCOL_TYPE,
        protocols=[request.JoinGroupRequestProtocol(name=PROTOCOL, metadata=subscription)],
    )
    return frame_of(ApiKey.JOIN_GROUP, version, body)


def sync_frame(
    group: str, member_id: str, generation: int, topic: str, shares: Mapping[str, Sequence[int]]
) -> bytes:
    """Request the assignment; `shares` maps members to partitions if sent by the leader, and is empty otherwise."""
    request = messages.SyncGroupRequest
    assignments = [
        request.SyncGroupRequestAssignment(
            member_id=one, assignment=encode_assignment(0, {topic: frozenset(partitions)})
        )
        for one, partitions in shares.items()
    ]
    body = request(
        group_id=group,
        generation_id=generation,
        member_id=member_id,
        protocol_type=PROTOCOL_TYPE,
        protocol_name=PROTOCOL,
        assignments=assignments,
    )
    return frame_of(ApiKey.SYNC_GROUP, SYNC_VERSION, body)


def heartbeat_frame(group: str, member_id: str, generation: int) -> bytes:
    body = messages.HeartbeatRequest(group_id=group, generation_id=generation, member_id=member_id)
    return frame_of(ApiKey.HEARTBEAT, HEARTBEAT_VERSION, body)


def commit_frame(
    group: str, member_id: str, generation: int, topic: str, offsets: Mapping[int, int]
) -> bytes:
    """Commit partition → offset."""
    request = messages.OffsetCommitRequest
    parts = [
        request.OffsetCommitRequestPartition(
            partition_index=index, committed_offset=offset, committed_metadata=""
        )
        for index, offset in offsets.items()
    ]
    body = request(
        group_id=group,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=[request.OffsetCommitRequestTopic(name=topic, partitions=parts)],
    )
    return frame_of(ApiKey.OFFSET_COMMIT, COMMIT_VERSION, body)


def offsets_frame(groups: Sequence[str]) -> bytes:
    """Request all committed offsets of several groups."""
    request = messages.OffsetFetchRequest
    body = request(
        groups=[request.OffsetFetchRequestGroup(group_id=group, topics=None) for group in groups],
        require_stable=True,
    )
    return frame_of(ApiKey.OFFSET_FETCH, OFFSETS_VERSION, body)
