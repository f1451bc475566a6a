"""Reassignments, elections and the quorum, mostly of one node, also with a failed disk and too much asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from cluster_nodes import ClusterNodes, on_a_cluster, until
from penstock.core.errors import DiskFailed
from penstock.core.limits import ADMIN_ENTRIES_MAX
from penstock.core.session import Session
from penstock.doors.kafka.placement import METADATA_TOPIC, PlacementHandlers
from penstock.node.connections.addresses import Address
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import API, ApiKey, ErrorCode, messages

from .conftest import SETTINGS, Node

SELF = SETTINGS.node_id


def ask(node: Node, key: ApiKey, version: int, **fields: Any) -> Any:
    handlers = PlacementHandlers(node.waist)
    node.waist.cluster.advertised = Address("broker.example", 19092)
    body = getattr(messages, f"{API[key].name}Request")(**fields)
    return node.ask(handlers.handlers()[key], key, version, body)


def elect(node: Node, kind: int, topics: dict[str, list[int]] | None, version: int = 2) -> Any:
    request = messages.ElectLeadersRequest
    listed = None
    if topics is not None:
        listed = [request.TopicPartitions(topic=name, partitions=which) for name, which in topics.items()]
    kinds = {"election_type": kind} if version else {}
    return ask(node, ApiKey.ELECT_LEADERS, version, topic_partitions=listed, **kinds)


def reassign(node: Node, *replicas: list[int] | None, version: int = 1) -> Any:
    request = messages.AlterPartitionReassignmentsRequest
    partitions = [
        request.ReassignablePartition(partition_index=index, replicas=one)
        for index, one in enumerate(replicas)
    ]
    topics = [request.ReassignableTopic(name="orders", partitions=partitions)]
    return ask(node, ApiKey.ALTER_PARTITION_REASSIGNMENTS, version, topics=topics)


@pytest.mark.parametrize("version", [0, 1, 2])
def test_no_election_is_needed(node: Node, version: int) -> None:
    node.make_topic("orders", 2)
    (result,) = elect(node, 0, {"orders": [0, 1]}, version).replica_election_results
    assert [one.error_code for one in result.partition_result] == [ErrorCode.ELECTION_NOT_NEEDED] * 2


@pytest.mark.parametrize(
    ("kind", "code"),
    [(0, ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE), (1, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE)],
)
def test_a_partition_whose_disk_failed_has_no_leader_to_elect(node: Node, kind: int, code: ErrorCode) -> None:
    node.make_topic("orders", 3)
    node.broker.partition("orders", 1).fail(DiskFailed("gone"))
    (result,) = elect(node, kind, None).replica_election_results
    assert [(one.partition_id, one.error_code) for one in result.partition_result] == [(1, code)]


@pytest.mark.parametrize("version", [0, 1])
def test_a_partition_stays_where_it_is(node: Node, version: int) -> None:
    node.make_topic("orders", 3)
    (topic,) = reassign(node, [SELF], [SELF + 1], None, [SELF], version=version).responses
    assert [one.error_code for one in topic.partitions] == [
        0,
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_more_partitions_than_one_request_may_name(node: Node) -> None:
    too_many = ADMIN_ENTRIES_MAX + 1
    answer = elect(node, 0, {"orders": list(range(too_many))})
    assert (answer.error_code, answer.replica_election_results) == (ErrorCode.INVALID_REQUEST, [])
    answer = reassign(node, *([[SELF]] * too_many))
    assert (answer.error_code, answer.responses) == (ErrorCode.INVALID_REQUEST, [])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_the_quorum_is_the_node_itself(node: Node, version: int) -> None:
    node.make_topic("orders")
    request = messages.DescribeQuorumRequest
    topics = [
        request.TopicData(topic_name=name, partitions=[request.PartitionData(partition_index=0)])
        for name in (METADATA_TOPIC, "orders")
    ]
    answer = ask(node, ApiKey.DESCRIBE_QUORUM, version, topics=topics)
    (metadata,), (other,) = (topic.partitions for topic in answer.topics)
    (voter,) = metadata.current_voters
    assert (metadata.leader_id, voter.replica_id, voter.log_end_offset) == (
        SELF,
        SELF,
        metadata.high_watermark,
    )
    assert metadata.high_watermark == node.broker.metadata_end > 0
    assert other.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if version == 2:
        (quorum_node,) = answer.nodes
        assert [(one.host, one.port) for one in quorum_node.listeners] == [("broker.example", 19092)]


def test_every_broker_of_a_cluster_names_the_controller_as_the_quorum() -> None:
    request = messages.DescribeQuorumRequest
    partitions = [request.PartitionData(partition_index=0)]
    asked = request(topics=[request.TopicData(topic_name=METADATA_TOPIC, partitions=partitions)])

    async def play(nodes: ClusterNodes) -> None:
        await until(lambda: all(one.controller_id in nodes.brokers for one in nodes.brokers.values()))
        for broker_id, broker in nodes.brokers.items():
            waist = Waist(broker)
            waist.cluster.advertised = Address(nodes.host(broker_id), 9092)
            call: Any = SimpleNamespace(session=Session("kafka"), version=2)
            answer = PlacementHandlers(waist).describe_quorum(call, asked)
            (voter,) = answer.topics[0].partitions[0].current_voters
            (found,) = answer.nodes
            assert voter.replica_id == found.node_id == broker.controller_id
            assert [one.host for one in found.listeners] == [nodes.host(broker.controller_id)]

    on_a_cluster(play)


def test_the_only_broker_stays_registered(node: Node) -> None:
    assert ask(node, ApiKey.UNREGISTER_BROKER, 0, broker_id=SELF).error_code == ErrorCode.INVALID_REQUEST
    other = ask(node, ApiKey.UNREGISTER_BROKER, 0, broker_id=SELF + 1)
    assert other.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
