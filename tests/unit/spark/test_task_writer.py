"""What a task does with its rows, against a real broker: partitions, order, batches, topics by row, bad rows."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from penstock.client.access import read_access
from penstock.client.errors import BadArgument, NotFound
from penstock.client.raw.batches import read_raw
from penstock.client.raw.cluster import Cluster, TopicPartition, codes_in
from penstock.client.raw.transactions import new_producer
from penstock.core.model import Header, Record
from penstock.core.records.batch_builder import ProducerIdentity
from penstock.core.records.build import open_batch
from penstock.core.records.murmur2 import partition_of
from penstock.spark.task_writer import TaskWriter, WriteTerms
from penstock.testing import running_broker
from penstock.wire.kafka import ApiKey, messages

PARTITIONS = 3
NAMED = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_broker(storage="memory") as broker:
        yield Cluster(read_access({"bootstrap.servers": broker.bootstrap, "retry.backoff.ms": "5"}))


@pytest.fixture
def topic(cluster: Cluster) -> str:
    return made_topic(cluster)


def made_topic(cluster: Cluster) -> str:
    name = f"t-{uuid.uuid4().hex}"
    wanted = messages.CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[]
    )
    request = messages.CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
    assert set(codes_in(cluster.ask(ApiKey.CREATE_TOPICS, request))) == {0}
    return name


def written(cluster: Cluster, terms: WriteTerms, *batches: pa.RecordBatch) -> tuple[Any, ...]:
    writer = TaskWriter(cluster, terms, ProducerIdentity(*new_producer(cluster), is_transactional=False))
    try:
        for batch in batches:
            writer.write(batch)
        return writer.finish()
    finally:
        writer.close()


def batch_of(**columns: Any) -> pa.RecordBatch:
    kinds = {
        "key": pa.binary(),
        "value": pa.binary(),
        "topic": pa.string(),
        "partition": pa.int32(),
        "headers": NAMED,
        "timestamp": pa.timestamp("us", tz="UTC"),
    }
    return pa.RecordBatch.from_arrays(
        [pa.array(of, kinds[name]) for name, of in columns.items()], list(columns)
    )


def records(cluster: Cluster, topic: str, partition: int) -> list[Record]:
    found = read_raw(cluster, TopicPartition(topic, partition), 0, 1 << 60)
    return [record for header, raw in found for record in open_batch(raw, header)]


def test_keys_go_to_their_partitions_in_order(cluster: Cluster, topic: str) -> None:
    keys = [b"%d" % (number % 7) for number in range(500)]
    values = [b"%d" % number for number in range(500)]
    terms = WriteTerms(topic=topic, batch_bytes=300)
    halves = [slice(0, 250), slice(250, 500)]
    spans = written(cluster, terms, *(batch_of(key=keys[half], value=values[half]) for half in halves))
    for span in spans:
        expected = [
            (key, value)
            for key, value in zip(keys, values, strict=True)
            if partition_of(key, PARTITIONS) == span.partition
        ]
        found = records(cluster, topic, span.partition)
        assert [(one.key, one.value) for one in found] == expected
        assert (span.first, span.last, span.records) == (0, len(expected) - 1, len(expected))
    assert sum(span.records for span in spans) == 500


def test_rows_without_a_key_fill_one_batch_after_the_other(cluster: Cluster, topic: str) -> None:
    spans = written(cluster, WriteTerms(topic=topic, batch_bytes=400), batch_of(value=[bytes(50)] * 100))
    assert sum(span.records for span in spans) == 100


def test_all_that_a_row_says_is_kept(cluster: Cluster, topic: str) -> None:
    written(
        cluster,
        WriteTerms(),
        batch_of(
            topic=[topic],
            partition=[2],
            key=[None],
            value=[None],
            headers=[[{"key": "a", "value": b"1"}, {"key": "a", "value": None}]],
            timestamp=[1_700_000_000_123_456],
        ),
    )
    expected = Record(0, 1_700_000_000_123, None, None, (Header("a", b"1"), Header("a", None)))
    assert records(cluster, topic, 2) == [expected]


def test_headers_can_be_left_out(cluster: Cluster, topic: str) -> None:
    row = batch_of(value=[b"v"], partition=[0], headers=[[{"key": "a", "value": b"1"}]])
    written(cluster, WriteTerms(topic=topic, has_headers=False), row)
    assert [one.headers for one in records(cluster, topic, 0)] == [()]


def test_rows_of_several_topics_in_one_batch(cluster: Cluster, topic: str) -> None:
    other = made_topic(cluster)
    rows = batch_of(topic=[topic, other, topic], value=[b"1", b"2", b"3"], partition=[0, 1, 0])
    written(cluster, WriteTerms(), rows)
    assert [one.value for one in records(cluster, topic, 0)] == [b"1", b"3"]
    assert [one.value for one in records(cluster, other, 1)] == [b"2"]


@pytest.mark.parametrize("change", [{"linger_ms": 0}, {"buffer_bytes_max": 1}, {"request_bytes_max": 600}])
def test_limits_change_requests_and_not_records(cluster: Cluster, topic: str, change: dict[str, Any]) -> None:
    terms = replace(WriteTerms(topic=topic, batch_bytes=500), **change)
    spans = written(cluster, terms, *(batch_of(value=[b"%d" % number]) for number in range(50)))
    assert sum(span.records for span in spans) == 50


def test_an_unknown_topic_is_missed_with_the_nearest_name(cluster: Cluster, topic: str) -> None:
    with pytest.raises(NotFound, match=f"Did you mean '{topic}'"):
        written(cluster, WriteTerms(topic=topic + "x"), batch_of(value=[b"v"]))


def test_a_row_without_a_topic_is_refused(cluster: Cluster, topic: str) -> None:
    with pytest.raises(BadArgument, match="a row has no topic"):
        written(cluster, WriteTerms(), batch_of(topic=[topic, None], value=[b"1", b"2"]))


def test_a_partition_that_is_not_there_is_refused(cluster: Cluster, topic: str) -> None:
    with pytest.raises(BadArgument, match="partition 3"):
        written(cluster, WriteTerms(topic=topic), batch_of(value=[b"1"], partition=[3]))


def test_a_record_over_the_request_is_refused_with_advice(cluster: Cluster, topic: str) -> None:
    with pytest.raises(BadArgument, match=r"kafka\.max\.request\.size"):
        written(cluster, WriteTerms(topic=topic, request_bytes_max=1000), batch_of(value=[bytes(2000)]))
