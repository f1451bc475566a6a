"""The record format of transactional ids, compatible with Kafka's tools. Stateless.

Key version 0: the transactional id. Value version 1: the fields of Kafka's transaction log, later ones as tagged
fields. Two Penstock-specific fields (an epoch, and the id of each topic) have tags that Kafka does not use and its
readers skip; a topic without that tag was written by a version that stored only names. A null value deletes the id.
"""

from __future__ import annotations

from itertools import groupby
from struct import Struct

from penstock.core.errors import TornSegment
from penstock.core.machine import Records
from penstock.core.machines.compact_fields import CompactReader, compact_list, compact_text, tags
from penstock.core.machines.record_fields import FieldReader, int16, int32, int64, text
from penstock.core.machines.transactions.values import (
    NO_TOPIC_ID,
    Enlisted,
    Event,
    Transaction,
    TransactionForgotten,
    TransactionSaved,
    TransactionState,
)
from penstock.core.model import NO_EPOCH, NO_PRODUCER, TOPIC_ID_BYTES

_KEY_VERSION = 0
_VALUE_VERSION = 1
_V1, _V2 = 0, 2
"""The transaction protocol version of the producer, numbered as in Kafka."""
_PREVIOUS_ID_TAG, _NEXT_ID_TAG, _PROTOCOL_TAG = 0, 1, 2
_LAST_EPOCH_TAG = 10_000
_TOPIC_ID_TAG = 10_000

_NULL = b"\0"
_HEAD = Struct(">hqhib")
"""Version, producer id, producer epoch, timeout, status."""
_TIMES = Struct(">qq")

_STATUS = {
    TransactionState.EMPTY: 0,
    TransactionState.ONGOING: 1,
    TransactionState.PREPARE_COMMIT: 2,
    TransactionState.PREPARE_ABORT: 3,
    TransactionState.COMPLETE_COMMIT: 4,
    TransactionState.COMPLETE_ABORT: 5,
}
_STATE_OF = {status: state for state, status in _STATUS.items()}


def encode(event: Event) -> tuple[bytes, bytes | None]:
    """Key and value of the event's record."""
    match event:
        case TransactionSaved(one):
            return _encode_key(one.transactional_id), _encode_value(one)
        case TransactionForgotten(transactional_id):
            return _encode_key(transactional_id), None


def decode(key: bytes | None, value: bytes | None) -> Event | None:
    """The event of a record; None for unknown key versions. Raises TornSegment if the record is invalid."""
    reader = FieldReader(key or b"")
    if reader.int16() != _KEY_VERSION:
        return None
    transactional_id = reader.text()
    reader.end()
    if value is None:
        return TransactionForgotten(transactional_id)
    return TransactionSaved(_decode_value(transactional_id, CompactReader(value)))


def _encode_key(transactional_id: str) -> bytes:
    return int16(_KEY_VERSION) + text(transactional_id)


def _encode_value(one: Transaction) -> bytes:
    return b"".join(
        (
            _HEAD.pack(
                _VALUE_VERSION, one.producer_id, one.producer_epoch, one.timeout_ms, _STATUS[one.state]
            ),
            _encode_partitions(one.partitions) if one.state is not TransactionState.EMPTY else _NULL,
            _TIMES.pack(one.changed_ms, one.started_ms),
            _encode_tags(one),
        )
    )


def _encode_partitions(enlisted: tuple[Enlisted, ...]) -> bytes:
    """Partitions by topic, each topic with its id as a tagged field."""
    topics = []
    for (topic, topic_id), some in groupby(enlisted, lambda at: (at.topic, at.topic_id)):
        tagged = tags({_TOPIC_ID_TAG: topic_id} if topic_id else {})
        topics.append(compact_text(topic) + compact_list([int32(at.partition) for at in some]) + tagged)
    return compact_list(topics)


def _encode_tags(one: Transaction) -> bytes:
    fields: dict[int, bytes] = {}
    if one.previous_producer_id != NO_PRODUCER:
        fields[_PREVIOUS_ID_TAG] = int64(one.previous_producer_id)
    if one.next_producer_id != NO_PRODUCER:
        fields[_NEXT_ID_TAG] = int64(one.next_producer_id)
    if one.is_v2:
        fields[_PROTOCOL_TAG] = int16(_V2)
    if one.last_epoch != NO_EPOCH:
        fields[_LAST_EPOCH_TAG] = int16(one.last_epoch)
    return tags(fields)


def _decode_value(transactional_id: str, reader: CompactReader) -> Transaction:
    version, producer_id, producer_epoch, timeout_ms, status = reader.integers(_HEAD)
    if version != _VALUE_VERSION:
        raise TornSegment(f"transaction record has version {version}, this broker supports {_VALUE_VERSION}")
    if status not in _STATE_OF:
        raise TornSegment(f"transactional id {transactional_id!r} has an invalid status {status}")
    partitions: tuple[Enlisted, ...] = ()
    if _STATE_OF[status] is not TransactionState.EMPTY:
        partitions = _decode_partitions(reader)
    elif reader.int8() != 0:
        raise TornSegment(f"transactional id {transactional_id!r} is empty but has partitions")
    changed_ms, started_ms = reader.integers(_TIMES)
    tagged = {tag: int.from_bytes(raw, "big", signed=True) for tag, raw in reader.tags().items()}
    reader.end()
    return Transaction(
        transactional_id,
        producer_id,
        producer_epoch,
        last_epoch=tagged.get(_LAST_EPOCH_TAG, NO_EPOCH),
        previous_producer_id=tagged.get(_PREVIOUS_ID_TAG, NO_PRODUCER),
        next_producer_id=tagged.get(_NEXT_ID_TAG, NO_PRODUCER),
        timeout_ms=timeout_ms,
        state=_STATE_OF[status],
        partitions=partitions,
        started_ms=started_ms,
        changed_ms=changed_ms,
        is_v2=tagged.get(_PROTOCOL_TAG, _V1) == _V2,
    )


def _decode_partitions(reader: CompactReader) -> tuple[Enlisted, ...]:
    enlisted: list[Enlisted] = []

    def read_topic() -> None:
        topic = reader.compact_text()
        partitions = reader.compact_list(reader.int32)
        topic_id = reader.tags().get(_TOPIC_ID_TAG, NO_TOPIC_ID)
        if len(topic_id) not in (0, TOPIC_ID_BYTES):
            raise TornSegment(f"topic {topic!r} is stored with an id of {len(topic_id)} bytes")
        enlisted.extend(Enlisted(topic, partition, topic_id) for partition in partitions)

    reader.compact_list(read_topic)
    return tuple(enlisted)


TRANSACTION_RECORDS = Records(
    {TransactionSaved: encode, TransactionForgotten: encode}, {_KEY_VERSION: decode}
)
"""The record formats of all events of transactional ids."""
