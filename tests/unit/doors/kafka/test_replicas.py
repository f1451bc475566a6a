"""Replicas as the metadata calls tell them, on three brokers: racks, in-sync and eligible ones, sizes and lag."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from cluster_nodes import ClusterNodes, on_a_cluster, until
from penstock.core.machines.cluster.events import BrokerSaved, PartitionSaved
from penstock.core.model import NewRecord, PartitionId
from penstock.core.records.build import build_batch
from penstock.core.session import Session
from penstock.doors.kafka.cluster import ClusterHandlers
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.slices import run_unsliced
from penstock.node.waist.waist import Waist
from penstock.wire.kafka import ErrorCode, messages


def handlers(nodes: ClusterNodes, broker_id: int) -> ClusterHandlers:
    return ClusterHandlers(Waist(nodes.brokers[broker_id]))


def call(version: int) -> Any:
    return SimpleNamespace(session=Session("kafka"), version=version)


def test_racks_are_told() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.converged()
        cluster, racks = nodes.brokers[1].catalog.cluster, {1: None, 2: "cellar", 3: None}
        cluster.apply(BrokerSaved(replace(cluster.broker(2), rack="cellar")))
        request: Any = messages.MetadataRequest(topics=[])
        found: Any = run_unsliced(handlers(nodes, 1).metadata(call(9), request))  # type: ignore[arg-type]
        assert {one.node_id: one.rack for one in found.brokers} == racks
        described = handlers(nodes, 1).describe_cluster(call(1), messages.DescribeClusterRequest())
        assert {one.broker_id: one.rack for one in described.brokers} == racks

    on_a_cluster(play)


@pytest.mark.parametrize(
    ("isr", "leader", "elr", "last_leader", "code", "last_known"),
    [
        ((1, 2, 3), 1, (), -1, 0, []),
        ((1,), 1, (2,), -1, 0, []),
        ((), -1, (2, 3), 1, ErrorCode.LEADER_NOT_AVAILABLE, [1]),
    ],
)
def test_eligible_replicas_are_told(
    isr: tuple[int, ...],
    leader: int,
    elr: tuple[int, ...],
    last_leader: int,
    code: int,
    last_known: list[int],
) -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 1)
        (present,) = nodes.placed(1, "t")
        nodes.brokers[1].catalog.cluster.apply(
            PartitionSaved(
                present._replace(replicas=(1, 2, 3), isr=isr, leader=leader, elr=elr, last_leader=last_leader)
            )
        )
        request = messages.DescribeTopicPartitionsRequest
        asked = request(topics=[request.TopicRequest(name="t")], cursor=None)
        (topic,) = run_unsliced(handlers(nodes, 1).describe_topic_partitions(call(0), asked)).topics
        (one,) = topic.partitions
        assert (one.error_code, one.leader_id, one.replica_nodes) == (code, leader, [1, 2, 3])
        assert (one.isr_nodes, one.eligible_leader_replicas) == (list(isr), list(elr))
        assert one.last_known_elr == last_known

    on_a_cluster(play)


def test_every_broker_tells_size_and_lag_of_its_own_replica() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 1)
        await nodes.converged()

        def held(broker_id: int) -> Partition:
            broker = nodes.brokers[broker_id]
            found = broker.find_held(PartitionId(broker.catalog.topic("t").id, 0))
            assert found is not None
            return found

        leader = nodes.leader("t").partition("t", 0)
        leader.append(memoryview(build_batch([NewRecord(None, b"x")], 1)))
        await until(lambda: all(held(one).end_offset == 1 for one in nodes.brokers))
        for broker_id in nodes.brokers:
            asked = messages.DescribeLogDirsRequest(topics=None)
            (result,) = run_unsliced(handlers(nodes, broker_id).describe_log_dirs(call(4), asked)).results
            sizes = {topic.name: topic.partitions for topic in result.topics}
            (one,) = sizes["t"]
            assert (one.partition_size, one.offset_lag, one.is_future_key) == (leader.log.size(), 0, False)

    on_a_cluster(play, has_doors=True, factor=3)
