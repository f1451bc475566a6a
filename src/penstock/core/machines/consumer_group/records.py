"""The record format of consumer groups in `__consumer_offsets`, compatible with Kafka 4.3. No I/O.

Key versions: 3 group epoch, 5 member, 6 target epoch, 7 member target, 8 current assignment of a member, 16 resolved
regular expression; every value is version 0 and flexible. Version 4 (partition metadata) is no longer written by Kafka;
a hash in the group's record replaced it. That hash is opaque; Penstock's differs from Kafka's.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from penstock.core.errors import TornSegment
from penstock.core.machine import Fields, Records
from penstock.core.machines.compact_fields import (
    CompactReader,
    compact_blob,
    compact_list,
    compact_text,
    tags,
)
from penstock.core.machines.consumer_group.assignors import Assignment
from penstock.core.machines.consumer_group.events import (
    ClassicMetadata,
    ConsumerGroupMember,
    CurrentAssignment,
    CurrentAssignmentSet,
    GroupEpoch,
    GroupEpochSet,
    MemberSet,
    MemberState,
    RegexSet,
    ResolvedRegex,
    TargetEpochSet,
    TargetSet,
)
from penstock.core.machines.record_fields import FieldReader, int16, int32, int64, text

FOOTING = 3
MEMBER = 5
TARGET_EPOCH = 6
TARGET = 7
STANDING = 8
REGEX = 16

_VALUE_VERSION = 0
_HASH_TAG = 0
_CLASSIC_TAG = 0

T = TypeVar("T")


# -- values


def _put_group_epoch(value: GroupEpoch) -> bytes:
    own = {_HASH_TAG: int64(value.topics_hash)} if value.topics_hash else {}
    return int32(value.epoch) + tags(own)


def _take_group_epoch(reader: CompactReader) -> GroupEpoch:
    epoch = reader.int32()
    own = reader.tags()
    return GroupEpoch(epoch, CompactReader(own[_HASH_TAG]).int64() if _HASH_TAG in own else 0)


def _put_member(value: ConsumerGroupMember) -> bytes:
    return b"".join(
        (
            compact_text(value.instance_id),
            compact_text(value.rack_id),
            compact_text(value.client_id),
            compact_text(value.client_host),
            compact_list([compact_text(name) for name in value.topic_names]),
            compact_text(value.topic_regex),
            int32(value.rebalance_ms),
            compact_text(value.assignor),
            tags({} if value.classic is None else {_CLASSIC_TAG: _put_classic(value.classic)}),
        )
    )


def _put_classic(value: ClassicMetadata) -> bytes:
    protocols = [compact_text(name) + compact_blob(metadata) + tags() for name, metadata in value.protocols]
    return b"\x01" + int32(value.session_ms) + compact_list(protocols) + tags()


def _take_member(reader: CompactReader) -> ConsumerGroupMember:
    instance_id, rack_id = reader.compact_text_or_none(), reader.compact_text_or_none()
    client_id, client_host = reader.compact_text(), reader.compact_text()
    topic_names = tuple(reader.compact_list(reader.compact_text))
    topic_regex, rebalance_ms = reader.compact_text_or_none(), reader.int32()
    assignor, own = reader.compact_text_or_none(), reader.tags()
    return ConsumerGroupMember(
        instance_id=instance_id,
        rack_id=rack_id,
        client_id=client_id,
        client_host=client_host,
        topic_names=topic_names,
        topic_regex=topic_regex,
        rebalance_ms=rebalance_ms,
        assignor=assignor,
        classic=_take_classic(CompactReader(own[_CLASSIC_TAG])) if _CLASSIC_TAG in own else None,
    )


def _take_classic(reader: CompactReader) -> ClassicMetadata | None:
    if reader.int8() == -1:
        return None

    def protocol() -> tuple[str, bytes]:
        name, metadata = reader.compact_text(), reader.compact_blob()
        reader.tags()
        return name, metadata

    return ClassicMetadata(reader.int32(), tuple(reader.compact_list(protocol)))


def _put_assignment(value: Assignment) -> bytes:
    return compact_list(
        [
            topic + compact_list([int32(one) for one in sorted(value[topic])]) + tags()
            for topic in sorted(value)
        ]
    )


def _take_assignment(reader: CompactReader) -> Assignment:
    def topic() -> tuple[bytes, frozenset[int]]:
        topic_id, partitions = reader.uuid(), frozenset(reader.compact_list(reader.int32))
        reader.tags()
        return topic_id, partitions

    return {topic_id: partitions for topic_id, partitions in reader.compact_list(topic) if partitions}


def _put_current_assignment(value: CurrentAssignment) -> bytes:
    numbers = int32(value.epoch) + int32(value.previous_epoch) + bytes([value.state])
    return numbers + _put_assignment(value.assigned) + _put_assignment(value.revoking) + tags()


def _take_current_assignment(reader: CompactReader) -> CurrentAssignment:
    epoch, previous_epoch, state = reader.int32(), reader.int32(), reader.int8()
    if state not in MemberState.__members__.values():
        raise TornSegment(f"consumer group member has an unknown state {state}")
    assigned, revoking = _take_assignment(reader), _take_assignment(reader)
    reader.tags()
    return CurrentAssignment(epoch, previous_epoch, MemberState(state), assigned, revoking)


def _put_resolved(value: ResolvedRegex) -> bytes:
    topics = compact_list([compact_text(name) for name in value.topics])
    return topics + int64(value.version) + int64(value.wall_ms) + tags()


def _take_resolved(reader: CompactReader) -> ResolvedRegex:
    found = ResolvedRegex(tuple(reader.compact_list(reader.compact_text)), reader.int64(), reader.int64())
    reader.tags()
    return found


def _put_target_epoch(value: int) -> bytes:
    return int32(value) + tags()


def _take_target_epoch(reader: CompactReader) -> int:
    epoch = reader.int32()
    reader.tags()
    return epoch


def _put_target(value: Assignment) -> bytes:
    return _put_assignment(value) + tags()


def _take_target(reader: CompactReader) -> Assignment:
    assignment = _take_assignment(reader)
    reader.tags()
    return assignment


# -- events


def _encode(version: int, second: str | None, put: Callable[[Any], bytes], event: Any) -> Fields:
    """`second` is the event field that follows the group id in the key."""
    key = int16(version) + text(event.group_id) + (text(getattr(event, second)) if second else b"")
    return key, None if event.value is None else int16(_VALUE_VERSION) + put(event.value)


def _decode(
    make: Callable[..., Any],
    has_second: bool,
    take: Callable[[CompactReader], Any],
    key: bytes,
    value: bytes | None,
) -> Any:
    names = FieldReader(key)
    names.int16()
    places = [names.text() for _ in range(1 + has_second)]
    names.end()
    if value is None:
        return make(*places, None)
    reader = CompactReader(value)
    version = reader.int16()
    if version != _VALUE_VERSION:
        raise TornSegment(
            f"consumer group record has version {version}, this broker supports {_VALUE_VERSION}"
        )
    content = take(reader)
    reader.end()
    return make(*places, content)


_FORMS: list[tuple[int, type, str | None, Callable[[Any], bytes], Callable[[CompactReader], Any]]] = [
    (FOOTING, GroupEpochSet, None, _put_group_epoch, _take_group_epoch),
    (MEMBER, MemberSet, "member_id", _put_member, _take_member),
    (TARGET_EPOCH, TargetEpochSet, None, _put_target_epoch, _take_target_epoch),
    (TARGET, TargetSet, "member_id", _put_target, _take_target),
    (STANDING, CurrentAssignmentSet, "member_id", _put_current_assignment, _take_current_assignment),
    (REGEX, RegexSet, "regex", _put_resolved, _take_resolved),
]

CONSUMER_GROUP_RECORDS = Records(
    {make: partial(_encode, version, second, put) for version, make, second, put, _ in _FORMS},
    {version: partial(_decode, make, second is not None, take) for version, make, second, _, take in _FORMS},
)
