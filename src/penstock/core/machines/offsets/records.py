"""The record format of committed offsets, compatible with Kafka's tools. Stateless.

Key version 1: group, topic, partition. Value version 3: offset, leader epoch, metadata, commit time; value version 1,
which has an expiry and no leader epoch, if the client sent a retention time. A null value removes the offset. A pended
offset has a Penstock-specific key version, which Kafka's readers skip.
"""

from __future__ import annotations

from struct import Struct

from penstock.core.errors import TornSegment
from penstock.core.machine import VERSION_BYTES, Fields, Records
from penstock.core.machines.offsets.offsets import (
    NO_EXPIRY,
    Committed,
    OffsetCommitted,
    OffsetPended,
    OffsetRemoved,
    OffsetUnpended,
)
from penstock.core.machines.record_fields import FieldReader, int16, int32, int64, text
from penstock.core.model import NO_EPOCH, TopicPartition

OFFSET_KEYS = (0, 1)
"""Both are accepted; the second is written."""
PENDED_KEY = 30_000
_VALUE = 3
_VALUE_WITH_EXPIRY = 1

_KEY_PREFIX = int16(OFFSET_KEYS[1])
_VERSION_OFFSET = Struct(">hq")
_VERSION_OFFSET_EPOCH = Struct(">hqi")


def _encode_key(group_id: str, at: TopicPartition) -> bytes:
    return _KEY_PREFIX + text(group_id) + text(at.topic) + int32(at.partition)


def _encode_value(one: Committed) -> bytes:
    if one.expire_ms != NO_EXPIRY:
        times = int64(one.commit_ms) + int64(one.expire_ms)
        return _VERSION_OFFSET.pack(_VALUE_WITH_EXPIRY, one.offset) + text(one.metadata) + times
    head = _VERSION_OFFSET_EPOCH.pack(_VALUE, one.offset, one.leader_epoch)
    return head + text(one.metadata) + int64(one.commit_ms)


def _encode_pended_key(group_id: str, producer_id: int, at: TopicPartition) -> bytes:
    return int16(PENDED_KEY) + text(group_id) + int64(producer_id) + text(at.topic) + int32(at.partition)


def _committed(event: OffsetCommitted) -> Fields:
    return _encode_key(event.group_id, event.partition), _encode_value(event.committed)


def _removed(event: OffsetRemoved) -> Fields:
    return _encode_key(event.group_id, event.partition), None


def _pended(event: OffsetPended) -> Fields:
    key = _encode_pended_key(event.group_id, event.producer_id, event.partition)
    return key, int16(event.producer_epoch) + _encode_value(event.committed)


def _unpended(event: OffsetUnpended) -> Fields:
    return _encode_pended_key(event.group_id, event.producer_id, event.partition), None


def _decode_value(reader: FieldReader) -> Committed:
    version, offset = reader.integers(_VERSION_OFFSET)
    if version not in (_VALUE, _VALUE_WITH_EXPIRY):
        raise TornSegment(f"offset record has version {version}, this broker supports 1 and 3")
    leader_epoch = reader.int32() if version == _VALUE else NO_EPOCH
    metadata, commit_ms = reader.text(), reader.int64()
    expire_ms = reader.int64() if version == _VALUE_WITH_EXPIRY else NO_EXPIRY
    reader.end()
    return Committed(offset, leader_epoch, metadata, commit_ms, expire_ms)


def _decode_offset(key: bytes, value: bytes | None) -> OffsetCommitted | OffsetRemoved:
    reader = FieldReader(key, VERSION_BYTES)
    group_id, partition = reader.text(), TopicPartition(reader.text(), reader.int32())
    reader.end()
    if value is None:
        return OffsetRemoved(group_id, partition)
    return OffsetCommitted(group_id, partition, _decode_value(FieldReader(value)))


def _decode_pended(key: bytes, value: bytes | None) -> OffsetPended | OffsetUnpended:
    reader = FieldReader(key, VERSION_BYTES)
    group_id, producer_id, partition = (
        reader.text(),
        reader.int64(),
        TopicPartition(reader.text(), reader.int32()),
    )
    reader.end()
    if value is None:
        return OffsetUnpended(group_id, producer_id, partition)
    fields = FieldReader(value)
    return OffsetPended(group_id, producer_id, fields.int16(), partition, _decode_value(fields))


OFFSET_RECORDS = Records(
    {OffsetCommitted: _committed, OffsetRemoved: _removed, OffsetPended: _pended, OffsetUnpended: _unpended},
    {OFFSET_KEYS[0]: _decode_offset, OFFSET_KEYS[1]: _decode_offset, PENDED_KEY: _decode_pended},
)
