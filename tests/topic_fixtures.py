"""Creates and fills topics over our own client, for tests of readers. Asserts nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.client.access import read_access
from penstock.client.raw.cluster import RETRIABLE, Cluster, Leader, codes_in
from penstock.core.model import NewRecord
from penstock.core.records.build import build_batch
from penstock.testing import Broker
from penstock.wire.kafka import ApiKey, ErrorCode, messages

NOW_MS = 1_700_000_000_000
_PRODUCE_VERSION_MAX = 9


def connected(broker: Broker) -> Cluster:
    return Cluster(read_access({"bootstrap.servers": broker.bootstrap}))


def create(cluster: Cluster, topic: str, partitions: int = 1, **configs: str) -> None:
    """A topic that keeps its records, however old their times are."""
    request = messages.CreateTopicsRequest
    named = [
        request.CreatableTopicConfig(name=name.replace("_", "."), value=value)
        for name, value in {"retention_ms": "-1", **configs}.items()
    ]
    wanted = request.CreatableTopic(
        name=topic, num_partitions=partitions, replication_factor=1, assignments=[], configs=named
    )
    _done(cluster.ask(ApiKey.CREATE_TOPICS, request(topics=[wanted], timeout_ms=30_000)))


def delete(cluster: Cluster, topic: str) -> None:
    request = messages.DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000)
    _done(cluster.ask(ApiKey.DELETE_TOPICS, request, version_max=5))


def grow(cluster: Cluster, topic: str, partitions: int) -> None:
    request = messages.CreatePartitionsRequest
    wanted = request.CreatePartitionsTopic(name=topic, count=partitions, assignments=None)
    _done(cluster.ask(ApiKey.CREATE_PARTITIONS, request(topics=[wanted], timeout_ms=30_000)))


def forget(cluster: Cluster, topic: str, partition: int, before: int) -> None:
    """Delete the records before an offset, as retention does."""
    request = messages.DeleteRecordsRequest
    part = request.DeleteRecordsPartition(partition_index=partition, offset=before)
    wanted = request.DeleteRecordsTopic(name=topic, partitions=[part])
    body = request(topics=[wanted], timeout_ms=30_000)
    _done(cluster.ask(ApiKey.DELETE_RECORDS, body, Leader(topic, partition)))


def put(
    cluster: Cluster, topic: str, records: Sequence[NewRecord | bytes], partition: int = 0, codec: int = 0
) -> None:
    """Write one batch."""
    fill(cluster, topic, records, 1, partition, codec)


def fill(
    cluster: Cluster,
    topic: str,
    records: Sequence[NewRecord | bytes],
    times: int,
    partition: int = 0,
    codec: int = 0,
) -> None:
    """Write one batch again and again. Apache Kafka may not know a new topic on every thread yet: it is asked again."""
    made = [one if isinstance(one, NewRecord) else NewRecord(None, one) for one in records]
    request = messages.ProduceRequest
    batch = memoryview(build_batch(made, NOW_MS, codec))
    part = request.PartitionProduceData(index=partition, records=batch)
    body = request(
        acks=-1, timeout_ms=30_000, topic_data=[request.TopicProduceData(name=topic, partition_data=[part])]
    )
    for _ in range(times):
        answer = cluster.ask(
            ApiKey.PRODUCE,
            body,
            Leader(topic, partition),
            version_max=_PRODUCE_VERSION_MAX,
            again_on=RETRIABLE | {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION},
        )
        _done(answer)


def numbered(count: int, start: int = 0) -> list[NewRecord]:
    """Records that say their number in key, value and time."""
    return [
        NewRecord(b"k%d" % number, b"v%d" % number, timestamp_ms=NOW_MS + number)
        for number in range(start, start + count)
    ]


def _done(answer: Any) -> None:
    failed = [code for code in codes_in(answer) if code]
    if failed:
        raise RuntimeError(f"the broker says {failed}: {answer}")
