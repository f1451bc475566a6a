"""What the rows about groups ask over a connection, with the answers checked. Never measures."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from bench.group_frames import (
    JOIN_AT_ONCE_VERSION,
    NOBODY,
    find_coordinator_frame,
    join_frame,
    offsets_frame,
    sync_frame,
)
from penstock.apps.measuring.loader import SIZE_BYTES, Loader, UnexpectedAnswer, body_of

GROUPS_TOPIC = "__consumer_offsets"


def find_coordinator(loader: Loader, group: str) -> None:
    """From now on there is a coordinator."""
    (found,) = loader.call(find_coordinator_frame(group)).coordinators
    expect(found.error_code, 0, "a coordinator")


def join_alone(loader: Loader, groups: Sequence[str], topic: str, partitions: Sequence[int]) -> list[str]:
    """One member in each of the groups, which is assigned the partitions; returns the members' ids."""
    joined = loader.call_many([join_frame(group, NOBODY, topic, JOIN_AT_ONCE_VERSION) for group in groups])
    for answer in joined:
        expect(answer.error_code, 0, "a place in the group")
    members: list[str] = [answer.member_id for answer in joined]
    synced = loader.call_many(
        [
            sync_frame(group, member, answer.generation_id, topic, {member: partitions})
            for group, member, answer in zip(groups, members, joined, strict=True)
        ]
    )
    for answer in synced:
        expect(answer.error_code, 0, "an assignment")
    return members


def commit_once(loader: Loader, frame: bytes) -> int:
    """One commit, answer decoded; returns the size of such an answer, its own four bytes included."""
    answer = loader.ask(frame)
    _check_committed(body_of(frame, answer))
    return len(answer) + SIZE_BYTES


def commit_all(loader: Loader, frames: Sequence[bytes]) -> None:
    """Many commits, every answer checked."""
    for body in loader.call_many(frames):
        _check_committed(body)


def _check_committed(body: Any) -> None:
    for topic in body.topics:
        for one in topic.partitions:
            expect(one.error_code, 0, "a commit")


def offsets_of(loader: Loader, groups: Sequence[str]) -> dict[str, dict[int, int]]:
    """Group → partition → committed offset."""
    found: dict[str, dict[int, int]] = {}
    for group in loader.call(offsets_frame(groups)).groups:
        expect(group.error_code, 0, "a group's offsets")
        found[group.group_id] = {
            one.partition_index: one.committed_offset for topic in group.topics for one in topic.partitions
        }
    return found


def kept_records(loader: Loader, partitions: int) -> int:
    """How many records the groups' topic holds, compaction aside."""
    return sum(loader.end_offsets(GROUPS_TOPIC, range(partitions)))


def expect(code: int, wanted: int, what: str) -> None:
    if code != wanted:
        raise UnexpectedAnswer(f"{what} was answered with error code {code}, not {wanted}")
