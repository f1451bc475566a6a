"""Requests of a transactional producer in protocol V1 and V2, built before the clock starts. Does no I/O."""

from __future__ import annotations

from typing import NamedTuple

from penstock.apps.bench.harness.frames import frame_of
from penstock.core.records.batch import TRANSACTIONAL, decode_header, encode_header, stamp_checksum
from penstock.wire.kafka import ApiKey, messages

INIT_VERSION = 5
ADD_VERSION = 3
TIMEOUT_MS = 60_000
PRODUCE_V1, PRODUCE_V2 = 11, 12
END_V1, END_V2 = 4, 5


class Producer(NamedTuple):
    """The identity of a transactional producer."""

    transactional_id: str
    producer_id: int
    epoch: int


def init_frame(transactional_id: str) -> bytes:
    body = messages.InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=TIMEOUT_MS
    )
    return frame_of(ApiKey.INIT_PRODUCER_ID, INIT_VERSION, body)


def add_frame(by: Producer, topic: str) -> bytes:
    """Add partition 0 of the topic to the transaction; protocol V1 only."""
    request = messages.AddPartitionsToTxnRequest
    body = request(
        v3_and_below_transactional_id=by.transactional_id,
        v3_and_below_producer_id=by.producer_id,
        v3_and_below_producer_epoch=by.epoch,
        v3_and_below_topics=[request.AddPartitionsToTxnTopic(name=topic, partitions=[0])],
    )
    return frame_of(ApiKey.ADD_PARTITIONS_TO_TXN, ADD_VERSION, body)


def produce_frame(by: Producer, topic: str, batch: bytes, sequence: int, *, is_v2: bool) -> bytes:
    """Produce the batch to partition 0 as this producer."""
    request = messages.ProduceRequest
    part = request.PartitionProduceData(index=0, records=memoryview(_owned(batch, by, sequence)))
    body = request(
        transactional_id=by.transactional_id,
        acks=-1,
        timeout_ms=TIMEOUT_MS,
        topic_data=[request.TopicProduceData(name=topic, partition_data=[part])],
    )
    return frame_of(ApiKey.PRODUCE, PRODUCE_V2 if is_v2 else PRODUCE_V1, body)


def end_frame(by: Producer, *, is_v2: bool) -> bytes:
    """Commit."""
    body = messages.EndTxnRequest(
        transactional_id=by.transactional_id,
        producer_id=by.producer_id,
        producer_epoch=by.epoch,
        committed=True,
    )
    return frame_of(ApiKey.END_TXN, END_V2 if is_v2 else END_V1, body)


def _owned(batch: bytes, by: Producer, sequence: int) -> bytes:
    """A copy of the batch with the producer's id, epoch and sequence, and a new checksum."""
    header = decode_header(batch)
    mine = header._replace(
        attributes=header.attributes | TRANSACTIONAL,
        producer_id=by.producer_id,
        producer_epoch=by.epoch,
        base_sequence=sequence,
    )
    copy = bytearray(batch)
    copy[: len(encode_header(mine))] = encode_header(mine)
    stamp_checksum(copy)
    return bytes(copy)
