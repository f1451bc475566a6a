"""Kafka requests as complete frames, built before the clock starts, and the batches for them. Does no I/O."""

from __future__ import annotations

import random
from collections.abc import Sequence
from struct import Struct
from typing import Any

from penstock.core.model import NewRecord
from penstock.core.records.build import build_batch
from penstock.wire.kafka import ApiKey, encode_request, messages

VALUE_BYTES = 1024
PRODUCE_VERSION = 10
FETCH_VERSION = 12
METADATA_VERSION = 9
CREATE_TOPICS_VERSION = 5
LIST_OFFSETS_VERSION = 6
DELETE_TOPICS_VERSION = 5
LATEST = -1
_CLIENT = "bench"
_TIMEOUT_MS = 30_000
_OFFSET = Struct(">q")
_SENTINEL = 0x5EED_0FF5_E700_0001
FIXED_TIME_MS = 1_767_225_600_000
"""All records have the same timestamp, so that equal runs write equal bytes."""


def make_batch(records: int, value_bytes: int = VALUE_BYTES) -> bytes:
    """A batch of incompressible values."""
    chance = random.Random(records)
    values = [NewRecord(None, chance.randbytes(value_bytes)) for _ in range(records)]
    return bytes(build_batch(values, FIXED_TIME_MS))


def produce_frame(topic: str, batch: bytes, partitions: Sequence[int] = (0,)) -> bytes:
    """A Produce request with one batch for each of the partitions and acks=all."""
    request = messages.ProduceRequest
    parts = [request.PartitionProduceData(index=index, records=memoryview(batch)) for index in partitions]
    body = request(
        acks=-1,
        timeout_ms=_TIMEOUT_MS,
        topic_data=[request.TopicProduceData(name=topic, partition_data=parts)],
    )
    return frame_of(ApiKey.PRODUCE, PRODUCE_VERSION, body)


def metadata_frame(topics: Sequence[str]) -> bytes:
    """A Metadata request, which creates missing topics."""
    request = messages.MetadataRequest
    body = request(
        topics=[request.MetadataRequestTopic(name=name) for name in topics], allow_auto_topic_creation=True
    )
    return frame_of(ApiKey.METADATA, METADATA_VERSION, body)


def create_topic_frame(topic: str, partitions: int, replicas: int = 1, **settings: object) -> bytes:
    """Settings have Kafka's names with `_` in place of dots."""
    request = messages.CreateTopicsRequest
    configs = [
        request.CreatableTopicConfig(name=name.replace("_", "."), value=str(value))
        for name, value in settings.items()
    ]
    one = request.CreatableTopic(
        name=topic, num_partitions=partitions, replication_factor=replicas, assignments=[], configs=configs
    )
    return frame_of(
        ApiKey.CREATE_TOPICS, CREATE_TOPICS_VERSION, request(topics=[one], timeout_ms=_TIMEOUT_MS)
    )


def delete_topic_frame(topic: str) -> bytes:
    body = messages.DeleteTopicsRequest(topic_names=[topic], timeout_ms=_TIMEOUT_MS)
    return frame_of(ApiKey.DELETE_TOPICS, DELETE_TOPICS_VERSION, body)


def latest_frame(topic: str, partitions: Sequence[int] = (0,)) -> bytes:
    request = messages.ListOffsetsRequest
    parts = [request.ListOffsetsPartition(partition_index=index, timestamp=LATEST) for index in partitions]
    body = request(replica_id=-1, topics=[request.ListOffsetsTopic(name=topic, partitions=parts)])
    return frame_of(ApiKey.LIST_OFFSETS, LIST_OFFSETS_VERSION, body)


class FetchFrame:
    """A Fetch request of one partition; `at` overwrites the offset in the encoded bytes."""

    def __init__(self, topic: str, bytes_max: int) -> None:
        request = messages.FetchRequest
        part = request.FetchPartition(partition=0, fetch_offset=_SENTINEL, partition_max_bytes=bytes_max)
        body = request(
            max_wait_ms=500,
            min_bytes=1,
            max_bytes=bytes_max,
            topics=[request.FetchTopic(topic=topic, partitions=[part])],
            forgotten_topics_data=[],
        )
        self._frame = bytearray(frame_of(ApiKey.FETCH, FETCH_VERSION, body))
        self._offset_at = self._frame.index(_OFFSET.pack(_SENTINEL))

    def at(self, offset: int) -> bytearray:
        """The request for `offset`; the next call changes the same bytes."""
        _OFFSET.pack_into(self._frame, self._offset_at, offset)
        return self._frame


def frame_of(api_key: int, version: int, body: Any) -> bytes:
    """A complete request, including its size field."""
    return encode_request(api_key, version, 1, _CLIENT, body)
