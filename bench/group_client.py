"""Group requests of the rows about groups, with checked responses. Untimed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.group_frames import (
    JOIN_AT_ONCE_VERSION,
    NO_MEMBER,
    find_coordinator_frame,
    join_frame,
    offsets_frame,
    sync_frame,
)
from penstock.apps.bench.harness.link import UnexpectedResponse
from penstock.apps.bench.harness.loader import SIZE_BYTES, Loader, body_of
from penstock.wire.kafka import ErrorCode

OFFSETS_TOPIC = "__consumer_offsets"


def find_coordinator(loader: Loader, group: str) -> None:
    """Wait for the coordinator of the group; creates the offsets topic."""
    (found,) = loader.call(find_coordinator_frame(group)).coordinators
    expect(found.error_code, 0, "FindCoordinator")


def join_alone(loader: Loader, groups: Sequence[str], topic: str, partitions: Sequence[int]) -> list[str]:
    """Join one member to each of the groups and assign the partitions to it; returns the member ids."""
    joined = loader.call_many([join_frame(group, NO_MEMBER, topic, JOIN_AT_ONCE_VERSION) for group in groups])
    for response in joined:
        expect(response.error_code, 0, "JoinGroup")
    members: list[str] = [response.member_id for response in joined]
    synced = loader.call_many(
        [
            sync_frame(group, member, response.generation_id, topic, {member: partitions})
            for group, member, response in zip(groups, members, joined, strict=True)
        ]
    )
    for response in synced:
        expect(response.error_code, 0, "SyncGroup")
    return members


def commit_once(loader: Loader, frame: bytes) -> int:
    """Send one commit and check it; returns the size of such a response, including its size field."""
    response = loader.ask(frame)
    _check_committed(body_of(frame, response))
    return len(response) + SIZE_BYTES


def commit_all(loader: Loader, frames: Sequence[bytes]) -> None:
    """Send many commits and check every response."""
    for body in loader.call_many(frames):
        _check_committed(body)


def _check_committed(body: Any) -> None:
    for topic in body.topics:
        for one in topic.partitions:
            expect(one.error_code, 0, "OffsetCommit")


def offsets_of(loader: Loader, groups: Sequence[str]) -> dict[str, dict[int, int]]:
    """Group → partition → committed offset. Retries at once, as long as a coordinator is loading its groups."""
    found: dict[str, dict[int, int]] = {}
    answered = loader.call(offsets_frame(groups)).groups
    while any(group.error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS for group in answered):
        answered = loader.call(offsets_frame(groups)).groups
    for group in answered:
        expect(group.error_code, 0, "OffsetFetch")
        found[group.group_id] = {
            one.partition_index: one.committed_offset for topic in group.topics for one in topic.partitions
        }
    return found


def stored_records(loader: Loader, partitions: int) -> int:
    """How many records were written to the offsets topic."""
    return sum(loader.end_offsets(OFFSETS_TOPIC, range(partitions)))


def expect(code: int, wanted: int, what: str) -> None:
    if code != wanted:
        raise UnexpectedResponse(f"the response to {what} has error code {code} instead of {wanted}")
