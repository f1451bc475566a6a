"""Hand-written fast paths for the hottest shapes: one partition in Produce and in Fetch.

Their results never differ from the generated code, which handles every other shape and raises all errors.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from penstock.core.limits import RECORDS_COPIED_BYTES_MAX
from penstock.wire.kafka.api import ApiKey
from penstock.wire.kafka.classes import Buffer, KafkaMessage
from penstock.wire.kafka.decoder import Decoder
from penstock.wire.kafka.notation import UUID_ZERO
from penstock.wire.kafka.primitives import finish_varint, write_varint

_NO_TAGS = b"\0\0\0"

Shortcut = Callable[[int, Any], list[Any] | None]
"""`(correlation id, message) -> the whole reply`, or None if the message has another shape."""

Make = Callable[[int, int, str, bytes, int, memoryview], Any]


def _ends(buf: memoryview, pos: int) -> bool:
    """Whether exactly three empty tag sections are left: the partition's, the topic's, the request's."""
    return len(buf) - pos == len(_NO_TAGS) and buf[pos:].tobytes() == _NO_TAGS


def _make_one(classes: dict[str, type[KafkaMessage]]) -> Make:
    """Builds a Produce request of one partition."""
    new = object.__new__
    request_class: Any = classes["ProduceRequest"]
    topic_class: Any = classes["TopicProduceData"]
    partition_class: Any = classes["PartitionProduceData"]

    def make(acks: int, timeout_ms: int, name: str, topic_id: bytes, index: int, records: memoryview) -> Any:
        request = new(request_class)
        topic = new(topic_class)
        partition = new(partition_class)
        request.transactional_id = None
        request.acks = acks
        request.timeout_ms = timeout_ms
        request.topic_data = [topic]
        topic.name = name
        topic.topic_id = topic_id
        topic.partition_data = [partition]
        partition.index = index
        partition.records = records
        return request

    return make


def make_produce_decoder(version: int, classes: dict[str, type[KafkaMessage]], generated: Decoder) -> Decoder:
    """A decoder for one non-transactional partition, in two unpacks; other requests go to `generated`."""
    make = _make_one(classes)
    if version >= 13:
        return _produce_by_id(make, generated)
    if version >= 9:
        return _produce_flexible(make, generated)
    return _produce_fixed(make, generated)


def _produce_by_id(make: Make, generated: Decoder) -> Decoder:
    unpack = struct.Struct(">BhiB16sBiB").unpack_from

    def decode(buf: Buffer, pos: int) -> Any:
        if type(buf) is not memoryview:
            buf = memoryview(buf)
        try:
            null, acks, timeout_ms, topics, topic_id, partitions, index, size = unpack(buf, pos)
            if (
                null or topics != 2 or partitions != 2
            ):  # the fields are at other positions, so `size` is meaningless
                return generated(buf, pos)
            start = pos + 30
            if size > 127:
                size, start = finish_varint(buf, start, size)
            stop = start + size - 1
        except (struct.error, IndexError):
            return generated(buf, pos)
        if not size or not _ends(buf, stop):
            return generated(buf, pos)
        return make(acks, timeout_ms, "", topic_id, index, buf[start:stop])

    return decode


def _produce_flexible(make: Make, generated: Decoder) -> Decoder:
    unpack_start = struct.Struct(">BhiBB").unpack_from
    unpack_partition = struct.Struct(">BiB").unpack_from

    def decode(buf: Buffer, pos: int) -> Any:
        if type(buf) is not memoryview:
            buf = memoryview(buf)
        try:
            null, acks, timeout_ms, topics, name_size = unpack_start(buf, pos)
            if null or topics != 2 or not 0 < name_size < 128:
                return generated(buf, pos)
            name_stop = pos + 8 + name_size
            partitions, index, size = unpack_partition(buf, name_stop)
            if partitions != 2:
                return generated(buf, pos)
            start = name_stop + 6
            if size > 127:
                size, start = finish_varint(buf, start, size)
            stop = start + size - 1
            if not size or not _ends(buf, stop):
                return generated(buf, pos)
            name = buf[pos + 9 : name_stop].tobytes().decode()
        except (struct.error, IndexError, UnicodeDecodeError):
            return generated(buf, pos)
        return make(acks, timeout_ms, name, UUID_ZERO, index, buf[start:stop])

    return decode


def _produce_fixed(make: Make, generated: Decoder) -> Decoder:
    unpack_start = struct.Struct(">hhiih").unpack_from
    unpack_partition = struct.Struct(">iii").unpack_from

    def decode(buf: Buffer, pos: int) -> Any:
        if type(buf) is not memoryview:
            buf = memoryview(buf)
        try:
            null, acks, timeout_ms, topics, name_size = unpack_start(buf, pos)
            if null != -1 or topics != 1 or name_size < 0:
                return generated(buf, pos)
            name_stop = pos + 14 + name_size
            partitions, index, size = unpack_partition(buf, name_stop)
            start = name_stop + 12
            if partitions != 1 or size < 0 or start + size != len(buf):
                return generated(buf, pos)
            name = buf[pos + 14 : name_stop].tobytes().decode()
        except (struct.error, UnicodeDecodeError):
            return generated(buf, pos)
        return make(acks, timeout_ms, name, UUID_ZERO, index, buf[start:])

    return decode


_BUFFERS = (bytes, bytearray, memoryview)
_SIZE_BYTES = 4
_NAME_BYTES_MAX = 126
"""Longer names have a multi-byte length in flexible encodings."""

_PRODUCED_BY_ID = struct.Struct(">iixB16sBihqqqBxxxix")
_PRODUCED_BY_ID_BYTES = _PRODUCED_BY_ID.size - _SIZE_BYTES
_PRODUCED_START = struct.Struct(">iixBB")
_PRODUCED_REST = struct.Struct(">BihqqqBxxxix")
_PRODUCED_BYTES = _PRODUCED_START.size + _PRODUCED_REST.size - _SIZE_BYTES
_PRODUCED_FIXED_START = struct.Struct(">iiih")
_PRODUCED_FIXED_REST = struct.Struct(">iihqqqi")
_PRODUCED_FIXED_BYTES = _PRODUCED_FIXED_START.size + _PRODUCED_FIXED_REST.size - _SIZE_BYTES

_FETCHED_BY_ID = struct.Struct(">iixihiB16sBihqqqBi")
_FETCHED_BY_ID_BYTES = _FETCHED_BY_ID.size - _SIZE_BYTES + len(_NO_TAGS)
_FETCHED_START = struct.Struct(">iixihiBB")
_FETCHED_REST = struct.Struct(">BihqqqBi")
_FETCHED_BYTES = _FETCHED_START.size + _FETCHED_REST.size - _SIZE_BYTES + len(_NO_TAGS)
_FETCHED_FIXED_START = struct.Struct(">iiihiih")
_FETCHED_FIXED_REST = struct.Struct(">iihqqqiii")
_FETCHED_FIXED_BYTES = _FETCHED_FIXED_START.size + _FETCHED_FIXED_REST.size - _SIZE_BYTES


def encode_produced(
    version: int,
    correlation_id: int,
    topic: str | bytes,
    index: int,
    base_offset: int,
    append_time_ms: int,
    start_offset: int,
    error_code: int = 0,
    throttle_time_ms: int = 0,
) -> bytes | None:
    """The Produce response of one partition, without a message object; None if this version has no fast path.

    The topic is given by name, or by id from version 13 on.
    """
    if version >= 13:
        if len(topic) != 16:
            return None
        return _PRODUCED_BY_ID.pack(
            _PRODUCED_BY_ID_BYTES, correlation_id, 2, topic, 2, index, error_code, base_offset, append_time_ms,
            start_offset, 1, throttle_time_ms,
        )  # fmt: skip
    assert isinstance(topic, str)
    name = topic.encode()
    size = len(name)
    if version >= 9:
        if size > _NAME_BYTES_MAX:
            return None
        start = _PRODUCED_START.pack(_PRODUCED_BYTES + size, correlation_id, 2, size + 1)
        return start + name + _PRODUCED_REST.pack(
            2, index, error_code, base_offset, append_time_ms, start_offset, 1, throttle_time_ms
        )  # fmt: skip
    if not 5 <= version <= 7:
        return None
    start = _PRODUCED_FIXED_START.pack(_PRODUCED_FIXED_BYTES + size, correlation_id, 1, size)
    return start + name + _PRODUCED_FIXED_REST.pack(
        1, index, error_code, base_offset, append_time_ms, start_offset, throttle_time_ms
    )  # fmt: skip


def _produced(version: int) -> Shortcut:
    """The same for a message with exactly one partition and no unusual fields."""

    def encode(correlation_id: int, body: Any) -> list[Any] | None:
        topic = body.responses[0]
        p = topic.partition_responses[0]
        if (
            len(body.responses) > 1
            or len(topic.partition_responses) > 1
            or body.node_endpoints
            or p.current_leader
        ):
            return None
        if version >= 8 and (p.record_errors or p.error_message is not None):
            return None
        frame = encode_produced(
            version, correlation_id, topic.topic_id if version >= 13 else topic.name, p.index, p.base_offset,
            p.log_append_time_ms, p.log_start_offset, p.error_code, body.throttle_time_ms,
        )  # fmt: skip
        return None if frame is None else [frame]

    return encode


def _fetched_by_id(correlation_id: int, body: Any) -> list[Any] | None:
    topic = body.responses[0]
    p = topic.partitions[0]
    records, aborted = p.records, p.aborted_transactions
    if len(body.responses) > 1 or len(topic.partitions) > 1 or aborted or records is None:
        return None
    if body.node_endpoints or len(topic.topic_id) != 16:
        return None
    if p.current_leader or p.diverging_epoch or p.snapshot_id:
        return None
    is_buffer = isinstance(records, _BUFFERS)
    length = len(records) if is_buffer else records.length
    count = write_varint(length + 1)
    start = _FETCHED_BY_ID.pack(
        _FETCHED_BY_ID_BYTES + len(count) + length,
        correlation_id,
        body.throttle_time_ms,
        body.error_code,
        body.session_id,
        2,
        topic.topic_id,
        2,
        p.partition_index,
        p.error_code,
        p.high_watermark,
        p.last_stable_offset,
        p.log_start_offset,
        aborted is not None,
        p.preferred_read_replica,
    )
    if is_buffer and length <= RECORDS_COPIED_BYTES_MAX:
        return [b"".join((start, count, records, _NO_TAGS))]
    return [start + count, records, _NO_TAGS]


def _fetched_flexible(correlation_id: int, body: Any) -> list[Any] | None:
    topic = body.responses[0]
    p = topic.partitions[0]
    records, aborted = p.records, p.aborted_transactions
    if len(body.responses) > 1 or len(topic.partitions) > 1 or aborted or records is None:
        return None
    name = topic.topic.encode()
    size = len(name)
    if body.node_endpoints or size > _NAME_BYTES_MAX:
        return None
    if p.current_leader or p.diverging_epoch or p.snapshot_id:
        return None
    is_buffer = isinstance(records, _BUFFERS)
    length = len(records) if is_buffer else records.length
    count = write_varint(length + 1)
    start = _FETCHED_START.pack(
        _FETCHED_BYTES + size + len(count) + length,
        correlation_id,
        body.throttle_time_ms,
        body.error_code,
        body.session_id,
        2,
        size + 1,
    )
    rest = _FETCHED_REST.pack(
        2,
        p.partition_index,
        p.error_code,
        p.high_watermark,
        p.last_stable_offset,
        p.log_start_offset,
        aborted is not None,
        p.preferred_read_replica,
    )
    if is_buffer and length <= RECORDS_COPIED_BYTES_MAX:
        return [b"".join((start, name, rest, count, records, _NO_TAGS))]
    return [b"".join((start, name, rest, count)), records, _NO_TAGS]


def _fetched_fixed(correlation_id: int, body: Any) -> list[Any] | None:
    topic = body.responses[0]
    p = topic.partitions[0]
    records, aborted = p.records, p.aborted_transactions
    if len(body.responses) > 1 or len(topic.partitions) > 1 or aborted or records is None:
        return None
    if body.node_endpoints or p.current_leader or p.diverging_epoch or p.snapshot_id:
        return None
    name = topic.topic.encode()
    is_buffer = isinstance(records, _BUFFERS)
    length = len(records) if is_buffer else records.length
    start = _FETCHED_FIXED_START.pack(
        _FETCHED_FIXED_BYTES + len(name) + length,
        correlation_id,
        body.throttle_time_ms,
        body.error_code,
        body.session_id,
        1,
        len(name),
    )
    rest = _FETCHED_FIXED_REST.pack(
        1,
        p.partition_index,
        p.error_code,
        p.high_watermark,
        p.last_stable_offset,
        p.log_start_offset,
        -1 if aborted is None else 0,
        p.preferred_read_replica,
        length,
    )
    if is_buffer and length <= RECORDS_COPIED_BYTES_MAX:
        return [b"".join((start, name, rest, records))]
    return [b"".join((start, name, rest)), records, b""]


def shortcut_of(api_key: int, version: int) -> Shortcut | None:
    """The fast path for responses of this API and version, if any."""
    if api_key == ApiKey.PRODUCE:
        return _produced(version)
    if api_key == ApiKey.FETCH:
        if version >= 13:
            return _fetched_by_id
        return {11: _fetched_fixed, 12: _fetched_flexible}.get(version)
    return None
