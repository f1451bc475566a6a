"""Metadata and the describe calls through the whole door."""

from __future__ import annotations

from typing import Any

import pytest

from in_process_client import ADDRESS, Caller
from penstock.core.errors import DiskFailed
from penstock.doors.kafka import cluster
from penstock.wire.kafka import ApiKey, ErrorCode, messages
from request_builders import NO_ID, metadata

from .conftest import Node

NOBODY = -1


def ask(node: Node, api_key: ApiKey, version: int, body: Any) -> Any:
    async def talk(caller: Caller) -> Any:
        return await caller.ask(api_key, version, body)

    return node.talk(talk)


@pytest.mark.parametrize("version", range(14))
def test_metadata_in_every_version(node: Node, version: int) -> None:
    node.make_topic("orders", 2)
    answer = ask(node, ApiKey.METADATA, version, metadata("orders", create=version < 4))
    broker, topic = answer.brokers[0], answer.topics[0]
    assert (broker.node_id, broker.host, broker.port) == (3, ADDRESS.host, ADDRESS.port)
    assert (topic.error_code, topic.name, len(topic.partitions)) == (0, "orders", 2)
    assert [(one.partition_index, one.leader_id, list(one.isr_nodes)) for one in topic.partitions] == [
        (0, 3, [3]),
        (1, 3, [3]),
    ]


def test_all_topics_and_none(node: Node) -> None:
    for name in ("b", "a"):
        node.make_topic(name)
    everything = ask(node, ApiKey.METADATA, 12, metadata())
    assert sorted(topic.name for topic in everything.topics) == ["a", "b"]
    assert len(ask(node, ApiKey.METADATA, 0, messages.MetadataRequest(topics=[])).topics) == 2
    assert ask(node, ApiKey.METADATA, 12, messages.MetadataRequest(topics=[])).topics == []


def test_topics_are_created_where_client_and_settings_want_it(node: Node) -> None:
    silent = ask(node, ApiKey.METADATA, 12, metadata("new"))
    assert silent.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    asked = ask(node, ApiKey.METADATA, 12, metadata("new", "new", "..", create=True))
    assert [topic.error_code for topic in asked.topics] == [0, 0, ErrorCode.INVALID_TOPIC_EXCEPTION]
    assert len(asked.topics[0].partitions) == node.broker.settings.default_partitions


def test_topics_by_id(node: Node) -> None:
    node.make_topic("orders")
    request = messages.MetadataRequest
    ids = [node.broker.catalog.topic("orders").id, b"?" * 16]
    topics = [request.MetadataRequestTopic(topic_id=one, name=None) for one in ids]
    answer = ask(node, ApiKey.METADATA, 12, request(topics=topics))
    assert [(topic.error_code, topic.name) for topic in answer.topics] == [
        (0, "orders"),
        (ErrorCode.UNKNOWN_TOPIC_ID, None),
    ]


def test_a_partition_whose_disk_failed_is_led_by_nobody(node: Node) -> None:
    node.make_topic("orders")
    node.broker.partition("orders", 0).fail(DiskFailed("gone"))
    one = ask(node, ApiKey.METADATA, 12, metadata("orders")).topics[0].partitions[0]
    assert (one.error_code, one.leader_id, list(one.offline_replicas)) == (
        ErrorCode.LEADER_NOT_AVAILABLE,
        NOBODY,
        [3],
    )


def test_describe_cluster(node: Node) -> None:
    answer = ask(node, ApiKey.DESCRIBE_CLUSTER, 1, messages.DescribeClusterRequest(endpoint_type=1))
    assert (answer.controller_id, answer.cluster_id) == (3, node.broker.identity.cluster_id)
    refusal = ask(node, ApiKey.DESCRIBE_CLUSTER, 1, messages.DescribeClusterRequest(endpoint_type=2))
    assert refusal.error_code == ErrorCode.UNSUPPORTED_ENDPOINT_TYPE


def pages(node: Node, names: list[str], limit: int) -> list[list[tuple[str, int]]]:
    """All pages of a description, as (topic, partition)s."""
    request, cursor, found = messages.DescribeTopicPartitionsRequest, None, []
    while True:
        body = request(
            topics=[request.TopicRequest(name=name) for name in names],
            response_partition_limit=limit,
            cursor=cursor,
        )
        answer = ask(node, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body)
        found.append(
            [(topic.name, one.partition_index) for topic in answer.topics for one in topic.partitions]
        )
        if answer.next_cursor is None:
            return found
        assert len(found) < 50
        cursor = request.Cursor(
            topic_name=answer.next_cursor.topic_name, partition_index=answer.next_cursor.partition_index
        )


def test_descriptions_come_in_pages(node: Node) -> None:
    node.make_topic("a", 3)
    node.make_topic("b", 2)
    everything = [("a", 0), ("a", 1), ("a", 2), ("b", 0), ("b", 1)]
    for limit in (-1, 1, 2, 3, 4, 5, 2**31 - 1):
        found = pages(node, [], limit)
        assert [one for page in found for one in page] == everything
        assert all(len(page) <= max(1, limit) for page in found)
    assert pages(node, ["b"], 9) == [[("b", 0), ("b", 1)]]


def test_a_page_has_a_limit_of_its_own(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "DESCRIBED_PARTITIONS_MAX", 2)
    node.make_topic("a", 5)
    assert [len(page) for page in pages(node, [], 1_000)] == [2, 2, 1]


def test_descriptions_of_what_is_not_there(node: Node) -> None:
    node.make_topic("a")
    request = messages.DescribeTopicPartitionsRequest
    body = request(
        topics=[request.TopicRequest(name=name) for name in ("a", "nowhere", "..")],
        response_partition_limit=10,
        cursor=request.Cursor(topic_name="a", partition_index=-7),
    )
    answer = ask(node, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, body)
    assert {topic.name: topic.error_code for topic in answer.topics} == {
        "a": 0,
        "nowhere": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert len(answer.topics[0].partitions) == 1


@pytest.mark.parametrize("version", range(1, 6))
def test_describe_log_dirs(node: Node, version: int) -> None:
    node.make_topic("orders", 2)
    node.write("orders", 3)
    answer = ask(node, ApiKey.DESCRIBE_LOG_DIRS, version, messages.DescribeLogDirsRequest(topics=None))
    [directory] = answer.results
    [topic] = directory.topics
    assert [one.partition_size > 0 for one in topic.partitions] == [True, False]
    request = messages.DescribeLogDirsRequest
    some = request(
        topics=[request.DescribableLogDirTopic(topic=name, partitions=[1, 7]) for name in ("orders", "x")]
    )
    [directory] = ask(node, ApiKey.DESCRIBE_LOG_DIRS, version, some).results
    assert [(topic.name, len(topic.partitions)) for topic in directory.topics] == [("orders", 1)]


def test_operations_are_told_to_who_asks(node: Node) -> None:
    node.make_topic("orders")
    request = messages.MetadataRequest
    topics = [request.MetadataRequestTopic(topic_id=NO_ID, name="orders")]
    answer = ask(node, ApiKey.METADATA, 12, request(topics=topics, include_topic_authorized_operations=True))
    assert answer.topics[0].topic_authorized_operations > 0
    silent = ask(node, ApiKey.METADATA, 12, metadata("orders"))
    assert silent.topics[0].topic_authorized_operations == -(2**31)
