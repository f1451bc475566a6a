"""Every version of every call that moves data or looks at it: same question, same answer.

Never compares bytes: old and new encodings must carry the same facts.
"""

from __future__ import annotations

from typing import Any

import pytest
from kafka.protocol.admin import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeLogDirsRequest,
)
from kafka.protocol.consumer import FetchRequest, ListOffsetsRequest
from kafka.protocol.metadata import MetadataRequest
from kafka.protocol.producer import InitProducerIdRequest, ProduceRequest

from compat.raw import LATEST_TIMESTAMP, RawConnection, batch, fetch_fields, values
from compat.vocabulary import CreateTopic


def named(raw: RawConnection, topic: str, by_id: bool, name_field: str) -> dict[str, Any]:
    """How a version names a topic."""
    return {"topic_id": raw.metadata([topic]).topics[0].topic_id} if by_id else {name_field: topic}


@pytest.mark.parametrize("version", range(3, 14))
def test_produce(raw: RawConnection, new_topic: CreateTopic, version: int) -> None:
    topic = new_topic()
    data = [
        {
            **named(raw, topic, version >= 13, "name"),
            "partition_data": [{"index": 0, "records": batch(b"a", b"b")}],
        }
    ]
    fields = {"transactional_id": None, "acks": -1, "timeout_ms": 10_000, "topic_data": data}
    (told,) = raw.call(ProduceRequest, version, **fields).responses[0].partition_responses
    assert (told.error_code, told.base_offset, told.log_append_time_ms) == (0, 0, -1)
    assert values(raw.fetch(topic, 0).records) == [b"a", b"b"]


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch(raw: RawConnection, new_topic: CreateTopic, version: int) -> None:
    topic = new_topic()
    raw.produce(topic, batch(b"a", b"b"))
    fields = fetch_fields([(topic, 0, 0)])
    del fields["topics"][0]["topic"]
    fields["topics"][0] |= named(raw, topic, version >= 13, "topic")
    if version >= 15:
        del fields["replica_id"]
    answer = raw.call(FetchRequest, version, **fields)
    (told,) = answer.responses[0].partitions
    assert (answer.throttle_time_ms, told.error_code, told.high_watermark) == (0, 0, 2)
    assert values(told.records) == [b"a", b"b"]


@pytest.mark.parametrize("version", range(1, 12))
def test_list_offsets(raw: RawConnection, new_topic: CreateTopic, version: int) -> None:
    topic = new_topic()
    raw.produce(topic, batch(b"a", b"b"))
    wanted = {"partition_index": 0, "current_leader_epoch": -1, "timestamp": LATEST_TIMESTAMP}
    fields = {"replica_id": -1, "isolation_level": 0, "topics": [{"name": topic, "partitions": [wanted]}]}
    (told,) = raw.call(ListOffsetsRequest, version, **fields).topics[0].partitions
    assert (told.error_code, told.offset) == (0, 2)


@pytest.mark.parametrize("version", range(14))
def test_metadata(raw: RawConnection, new_topic: CreateTopic, bootstrap: str, version: int) -> None:
    topic = new_topic(partitions=3)
    answer = raw.call(MetadataRequest, version, topics=[{"name": topic}])
    assert set(bootstrap.split(",")) == {f"{broker.host}:{broker.port}" for broker in answer.brokers}
    (described,) = answer.topics
    assert (described.error_code, described.name) == (0, topic)
    partitions = sorted(described.partitions, key=lambda one: int(one.partition_index))
    assert [one.partition_index for one in partitions] == [0, 1, 2]
    nodes = {broker.node_id for broker in answer.brokers}
    assert all(one.leader_id in nodes and one.isr_nodes == [one.leader_id] for one in partitions)


@pytest.mark.parametrize("version", range(2, 8))
def test_create_topics(raw: RawConnection, fresh: str, version: int) -> None:
    wanted = {"name": fresh, "num_partitions": 2, "replication_factor": 1, "assignments": []}
    wanted["configs"] = [{"name": "retention.ms", "value": "777"}]
    answer = raw.call(CreateTopicsRequest, version, topics=[wanted], timeout_ms=10_000, validate_only=False)
    assert [(one.name, one.error_code) for one in answer.topics] == [(fresh, 0)]
    raw.await_leaders(fresh, 2)


@pytest.mark.parametrize("version", range(1, 7))
def test_delete_topics(raw: RawConnection, new_topic: CreateTopic, version: int) -> None:
    topic = new_topic()
    wanted: dict[str, Any] = {"topics": [{"name": topic}]} if version >= 6 else {"topic_names": [topic]}
    answer = raw.call(DeleteTopicsRequest, version, timeout_ms=10_000, **wanted)
    assert [(one.name, one.error_code) for one in answer.responses] == [(topic, 0)]
    raw.await_absence(topic)


@pytest.mark.parametrize("version", range(4))
def test_create_partitions(raw: RawConnection, new_topic: CreateTopic, version: int) -> None:
    topic = new_topic()
    wanted = [{"name": topic, "count": 3, "assignments": None}]
    answer = raw.call(CreatePartitionsRequest, version, topics=wanted, timeout_ms=10_000, validate_only=False)
    assert [(one.name, one.error_code) for one in answer.results] == [(topic, 0)]
    raw.await_leaders(topic, 3)


@pytest.mark.parametrize("version", range(1, 5))
def test_describe_configs(raw: RawConnection, new_topic: CreateTopic, version: int) -> None:
    topic = new_topic(retention_ms="777")
    wanted = {"resource_type": 2, "resource_name": topic, "configuration_keys": ["retention.ms"]}
    (told,) = raw.call(
        DescribeConfigsRequest,
        version,
        resources=[wanted],
        include_synonyms=True,
        include_documentation=False,
    ).results
    assert told.error_code == 0
    assert [(entry.name, entry.value, entry.read_only) for entry in told.configs] == [
        ("retention.ms", "777", False)
    ]


@pytest.mark.parametrize("version", range(1, 6))
def test_describe_log_dirs(raw: RawConnection, new_topic: CreateTopic, version: int) -> None:
    topic = new_topic()
    raw.produce(topic, batch(b"x" * 500))
    answer = raw.call(DescribeLogDirsRequest, version, topics=[{"topic": topic, "partitions": [0]}])
    sizes = [
        (one.name, place.partition_index, place.partition_size >= 500, place.is_future_key)
        for directory in answer.results
        for one in directory.topics
        for place in one.partitions
    ]
    assert sizes == [(topic, 0, True, False)]


@pytest.mark.parametrize("version", range(6))
def test_init_producer_id(raw: RawConnection, version: int) -> None:
    none = {"producer_id": -1, "producer_epoch": -1} if version >= 3 else {}
    answer = raw.call(
        InitProducerIdRequest, version, transactional_id=None, transaction_timeout_ms=60_000, **none
    )
    assert (answer.error_code, answer.producer_epoch) == (0, 0)
    assert answer.producer_id >= 0
