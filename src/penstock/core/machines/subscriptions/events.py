"""Events of a subscription on one partition and their record format.

Persisted are the start offset (everything before it is settled) and marks, the state of single offsets after it. Marks
are stored in blocks of adjacent offsets, each under its own key, so that records stay small however many messages are
in flight, and a compacted topic is enough. The format is Penstock's own; Kafka's share groups use another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import NamedTuple

from penstock.core.errors import TornSegment
from penstock.core.machine import Fields, Records, event_type
from penstock.core.machines.record_fields import FieldReader, blob, int16, int32, int64, text
from penstock.core.model import TOPIC_ID_BYTES

BLOCK_OFFSETS = 64
"""Offsets per block of marks."""

START, BLOCK = 1000, 1001
"""Key versions, distinct from Kafka's."""

_VALUE_VERSION = 0


class MarkState(IntEnum):
    """The state of an offset at or after the start."""

    READY = 0
    """It was delivered before and returned."""
    DONE = 1
    """It is settled and waits for earlier offsets."""
    DYING = 2
    """It was returned too often or rejected, and is settled once it is in the dead letter topic."""


class Mark(NamedTuple):
    state: MarkState
    deliveries: int


class Feed(NamedTuple):
    """A subscription on one partition."""

    name: str
    topic_id: bytes
    partition: int


@event_type
class StartMoved(NamedTuple):
    """Everything before this offset is settled; None if the subscription was deleted. Persisted."""

    feed: Feed
    start_offset: int | None


@event_type
class BlockSet(NamedTuple):
    """The marks of the offsets from `block` × BLOCK_OFFSETS on; None if there are none. Persisted."""

    feed: Feed
    block: int
    marks: Mapping[int, Mark] | None


@event_type
class SubscriberPut(NamedTuple):
    """A member may hold up to `window` messages. Not persisted."""

    feed: Feed
    member_id: str
    window: int


@event_type
class SubscriberGone(NamedTuple):
    """Not persisted."""

    feed: Feed
    member_id: str


@event_type
class Held(NamedTuple):
    """Messages (offset, member) were delivered in this order and must be settled before the deadline. Not persisted."""

    feed: Feed
    given: Sequence[tuple[int, str]]
    deadline_ms: int


@event_type
class Freed(NamedTuple):
    """Messages are no longer held; if `is_ready` they can be delivered again. Not persisted."""

    feed: Feed
    offsets: Sequence[int]
    is_ready: bool


@event_type
class Skipped(NamedTuple):
    """There are no messages at these offsets: a compacted log has gaps. Not persisted."""

    feed: Feed
    first_offset: int
    last_offset: int


Event = StartMoved | BlockSet | SubscriberPut | SubscriberGone | Held | Freed | Skipped


def _key(version: int, feed: Feed) -> bytes:
    return int16(version) + text(feed.name) + blob(feed.topic_id) + int32(feed.partition)


def _encode_start(event: StartMoved) -> Fields:
    value = None if event.start_offset is None else int16(_VALUE_VERSION) + int64(event.start_offset)
    return _key(START, event.feed), value


def _encode_block(event: BlockSet) -> Fields:
    key = _key(BLOCK, event.feed) + int64(event.block)
    if event.marks is None:
        return key, None
    out = [int16(_VALUE_VERSION), int32(len(event.marks))]
    for offset, mark in sorted(event.marks.items()):
        out += (int16(offset - event.block * BLOCK_OFFSETS), int16(mark.state), int32(mark.deliveries))
    return key, b"".join(out)


def _take_feed(reader: FieldReader) -> Feed:
    reader.int16()
    feed = Feed(reader.text(), reader.blob(), reader.int32())
    if len(feed.topic_id) != TOPIC_ID_BYTES or feed.partition < 0:
        raise TornSegment(f"subscription record with an invalid partition: {feed}")
    return feed


def _open(value: bytes) -> FieldReader:
    reader = FieldReader(value)
    version = reader.int16()
    if version != _VALUE_VERSION:
        raise TornSegment(f"subscription record has version {version}, this broker supports {_VALUE_VERSION}")
    return reader


def _decode_start(key: bytes, value: bytes | None) -> StartMoved:
    names = FieldReader(key)
    feed = _take_feed(names)
    names.end()
    if value is None:
        return StartMoved(feed, None)
    reader = _open(value)
    offset = reader.int64()
    reader.end()
    if offset < 0:
        raise TornSegment(f"subscription record has an invalid start offset {offset}")
    return StartMoved(feed, offset)


def _decode_block(key: bytes, value: bytes | None) -> BlockSet:
    names = FieldReader(key)
    feed, block = _take_feed(names), names.int64()
    names.end()
    if value is None:
        return BlockSet(feed, block, None)
    reader = _open(value)
    marks = {}
    for _ in range(reader.count()):
        place, state, deliveries = reader.int16(), reader.int16(), reader.int32()
        if not 0 <= place < BLOCK_OFFSETS or state not in MarkState.__members__.values() or deliveries < 0:
            raise TornSegment(f"subscription record with an invalid mark:  {place}, {state}, {deliveries}")
        marks[block * BLOCK_OFFSETS + place] = Mark(MarkState(state), deliveries)
    reader.end()
    if block < 0 or not marks:
        raise TornSegment(f"subscription record with an invalid block: {block}")
    return BlockSet(feed, block, marks)


SUBSCRIPTION_RECORDS = Records(
    {StartMoved: _encode_start, BlockSet: _encode_block}, {START: _decode_start, BLOCK: _decode_block}
)
