"""Builders of common Kafka requests, for tests of the Kafka door. Sends nothing."""

from __future__ import annotations

from typing import Any

from penstock.wire.kafka import messages

NO_ID = bytes(16)


def produce(
    topic: str,
    batch: bytes | bytearray | memoryview,
    *,
    partition: int = 0,
    acks: int = -1,
    timeout_ms: int = 30_000,
) -> Any:
    """Produce one batch to one partition, by the topic's name."""
    request = messages.ProduceRequest
    one = request.PartitionProduceData(index=partition, records=memoryview(bytes(batch)))
    topic_data = [request.TopicProduceData(name=topic, partition_data=[one])]
    return request(transactional_id=None, acks=acks, timeout_ms=timeout_ms, topic_data=topic_data)


def fetch(
    *wanted: tuple[str, int, int],
    wait_ms: int = 0,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_bytes: int = 1 << 20,
    epoch: int = -1,
    **more: Any,
) -> Any:
    """Fetch from (topic, partition, offset)s, by name."""
    request = messages.FetchRequest
    topics = [
        request.FetchTopic(
            topic=topic,
            partitions=[
                request.FetchPartition(
                    partition=partition,
                    current_leader_epoch=epoch,
                    fetch_offset=offset,
                    partition_max_bytes=partition_bytes,
                )
            ],
        )
        for topic, partition, offset in wanted
    ]
    return request(max_wait_ms=wait_ms, min_bytes=min_bytes, max_bytes=max_bytes, topics=topics, **more)


def list_offsets(topic: str, time_ms: int, *, partition: int = 0, epoch: int = -1) -> Any:
    request = messages.ListOffsetsRequest
    one = request.ListOffsetsPartition(
        partition_index=partition, current_leader_epoch=epoch, timestamp=time_ms
    )
    return request(replica_id=-1, topics=[request.ListOffsetsTopic(name=topic, partitions=[one])])


def epoch_end(topic: str, epoch: int, *, partition: int = 0, current: int = -1) -> Any:
    request = messages.OffsetForLeaderEpochRequest
    one = request.OffsetForLeaderPartition(
        partition=partition, current_leader_epoch=current, leader_epoch=epoch
    )
    return request(replica_id=-1, topics=[request.OffsetForLeaderTopic(topic=topic, partitions=[one])])


def metadata(*names: str | None, create: bool = False) -> Any:
    """Metadata of topics by name; of all when none is named."""
    request = messages.MetadataRequest
    topics = [request.MetadataRequestTopic(topic_id=NO_ID, name=name) for name in names] or None
    return request(topics=topics, allow_auto_topic_creation=create)
