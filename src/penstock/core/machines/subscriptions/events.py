"""What happens to a subscription on one partition, and the records that keep it. Values and bytes; never decides.

Kept are where the subscription starts (everything before it is settled) and marks: what is known of single offsets
after that. Marks are kept in blocks of neighbouring offsets, each under a key of its own, so that a record stays small
however many are in flight, and a compacted topic is enough. The forms are ours; Kafka keeps share groups otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from penstock.core.errors import TornSegment
from penstock.core.machine import Fields, Records
from penstock.core.machines.record_fields import FieldReader, blob, int16, int32, int64, text

BLOCK_OFFSETS = 64
"""Offsets whose marks share a record."""

START, BLOCK = 1000, 1001
"""Versions that the keys start with, away from those that Kafka uses."""

_VALUE_VERSION = 0
_TOPIC_ID_BYTES = 16


class MarkState(IntEnum):
    """What is known of an offset that is not settled in order."""

    READY = 0
    """It was delivered before and came back."""
    DONE = 1
    """It is settled; it only waits for those before it."""
    DYING = 2
    """It came back too often or was rejected; it counts as settled once it lies in the dead letter topic."""


class Mark(NamedTuple):
    state: MarkState
    deliveries: int


class Feed(NamedTuple):
    """Which subscription, on which partition."""

    name: str
    topic_id: bytes
    partition: int


@dataclass(frozen=True, slots=True)
class StartMoved:
    """Everything before this offset is settled; None: the subscription is gone. Kept."""

    feed: Feed
    start_offset: int | None


@dataclass(frozen=True, slots=True)
class BlockSet:
    """The marks of the offsets from `block` × BLOCK_OFFSETS on; none: None. Kept."""

    feed: Feed
    block: int
    marks: Mapping[int, Mark] | None


@dataclass(frozen=True, slots=True)
class SubscriberPut:
    """A member may now hold up to `window` messages. Not kept."""

    feed: Feed
    member_id: str
    window: int


@dataclass(frozen=True, slots=True)
class SubscriberGone:
    """Not kept."""

    feed: Feed
    member_id: str


class Held(NamedTuple):
    """Members were given messages (offset, member), in this order, and have until the deadline. Not kept."""

    feed: Feed
    given: Sequence[tuple[int, str]]
    deadline_ms: int


class Freed(NamedTuple):
    """Messages are with nobody any more; if they are still to be delivered, others may have them. Not kept."""

    feed: Feed
    offsets: Sequence[int]
    is_ready: bool


@dataclass(frozen=True, slots=True)
class Skipped:
    """There are no messages at these offsets: a compacted log has holes. Not kept."""

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
    if len(feed.topic_id) != _TOPIC_ID_BYTES or feed.partition < 0:
        raise TornSegment(f"a subscription's record names no partition: {feed}")
    return feed


def _open(value: bytes) -> FieldReader:
    reader = FieldReader(value)
    version = reader.int16()
    if version != _VALUE_VERSION:
        raise TornSegment(
            f"a subscription's record has version {version}, this broker knows {_VALUE_VERSION}"
        )
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
        raise TornSegment(f"a subscription starts at {offset}")
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
            raise TornSegment(
                f"a subscription's record holds a mark that cannot be: {place}, {state}, {deliveries}"
            )
        marks[block * BLOCK_OFFSETS + place] = Mark(MarkState(state), deliveries)
    reader.end()
    if block < 0 or not marks:
        raise TornSegment(f"a subscription's record holds a block that cannot be: {block}")
    return BlockSet(feed, block, marks)


SUBSCRIPTION_RECORDS = Records(
    {StartMoved: _encode_start, BlockSet: _encode_block}, {START: _decode_start, BLOCK: _decode_block}
)
