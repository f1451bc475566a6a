"""Consumers that name their rack: to whom the leader refers them, and what a follower serves."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from cluster_nodes import ClusterNodes, on_a_cluster, until
from penstock.core.errors import BrokerError, Fenced, NotLeader, OffsetOutOfRange, UnknownEpoch
from penstock.core.machines.cluster.election import ElectionKind
from penstock.core.machines.cluster.events import BrokerSaved, PartitionSaved
from penstock.core.machines.cluster.partition_state import decide_elect
from penstock.core.machines.cluster.reassignment import decide_reassign
from penstock.core.model import NO_EPOCH, Isolation, NewRecord, PartitionId
from penstock.core.records.build import build_batch
from penstock.core.session import Session
from penstock.node.cluster.read_replica import ReadReplica
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.tasks import resolver
from penstock.node.waist.fetch import NO_PREFERENCE, Fetched
from penstock.node.waist.waist import Waist

ANN = Session("kafka", principal="User:ann")
BYTES = 1 << 20


def rack_of(broker_id: int) -> str:
    return f"rack-{broker_id}"


async def stage(nodes: ClusterNodes, count: int = 3) -> int:
    """Brokers on racks of their own, and a partition on all of them with some records; returns its leader."""
    await nodes.brokers[1].change(
        lambda catalog: [
            BrokerSaved(replace(one, rack=rack_of(one.broker_id))) for one in catalog.cluster.brokers
        ]
    )
    await nodes.create(1, "t", 1)
    await nodes.converged()
    leader_id = nodes.placed(1, "t")[0].leader
    await write(nodes, leader_id, count)
    await until(lambda: all(held(nodes, one).high_watermark == count for one in nodes.brokers))
    return leader_id


async def write(nodes: ClusterNodes, leader_id: int, count: int) -> None:
    partition = held(nodes, leader_id)
    done: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
    for number in range(count):
        batch = build_batch([NewRecord(None, b"%d" % number)], 1)
        end_offset = partition.append(memoryview(batch)).end_offset
    partition.when_committed(end_offset, resolver(done))
    assert await done is None


def held(nodes: ClusterNodes, broker_id: int) -> Partition:
    broker = nodes.brokers[broker_id]
    found = broker.find_held(PartitionId(broker.catalog.topic("t").id, 0))
    assert found is not None
    return found


def read(nodes: ClusterNodes, broker_id: int, rack: str, offset: int = 0, epoch: int = NO_EPOCH) -> Fetched:
    verbs = Waist(nodes.brokers[broker_id]).fetch
    return verbs.read(ANN, "t", 0, offset, BYTES, Isolation.READ_UNCOMMITTED, epoch, rack)


def on_racks(play: Any) -> None:
    on_a_cluster(play, has_doors=True, factor=3)


def test_the_leader_refers_to_the_replica_in_the_same_rack() -> None:
    async def play(nodes: ClusterNodes) -> None:
        leader_id = await stage(nodes)
        for one in nodes.brokers:
            found = read(nodes, leader_id, rack_of(one))
            is_elsewhere = one != leader_id
            assert found.preferred_id == (one if is_elsewhere else NO_PREFERENCE)
            assert (found.run is None) == is_elsewhere
        for rack in ("", "rack-9"):
            assert read(nodes, leader_id, rack).preferred_id == NO_PREFERENCE

    on_racks(play)


def test_a_follower_serves_what_is_committed() -> None:
    async def play(nodes: ClusterNodes) -> None:
        leader_id = await stage(nodes)
        follower_id = next(one for one in nodes.brokers if one != leader_id)
        epoch = held(nodes, follower_id).leader_epoch
        found = read(nodes, follower_id, rack_of(follower_id), 0, epoch)
        assert found.run is not None and found.run.end_offset == 3 and found.preferred_id == NO_PREFERENCE
        assert read(nodes, follower_id, rack_of(follower_id), 3).run is None, "it waits there"
        beyond = read(nodes, follower_id, rack_of(follower_id), 4)
        assert isinstance(beyond.error, OffsetOutOfRange) and beyond.high_watermark == 3
        with pytest.raises(UnknownEpoch):
            read(nodes, follower_id, "x", 0, epoch + 1)
        with pytest.raises(NotLeader):
            read(nodes, follower_id, "")

    on_racks(play)


def test_a_follower_fences_readers_that_know_an_earlier_leader() -> None:
    async def play(nodes: ClusterNodes) -> None:
        leader_id = await stage(nodes)
        heir_id, follower_id = (one for one in nodes.brokers if one != leader_id)
        (placed,) = nodes.placed(1, "t")
        target = [heir_id, leader_id, follower_id]
        await nodes.brokers[1].change(lambda catalog: decide_reassign(catalog.cluster, placed.id, target))
        await nodes.brokers[1].change(
            lambda catalog: decide_elect(catalog.cluster, placed.id, ElectionKind.PREFERRED)
        )
        await nodes.converged()
        epoch = held(nodes, follower_id).leader_epoch
        assert epoch == placed.leader_epoch + 1
        assert isinstance(read(nodes, follower_id, "x", 0, epoch - 1).error, Fenced)
        assert read(nodes, follower_id, "x", 0, epoch).run is not None

    on_racks(play)


@pytest.mark.parametrize("change", [{"is_fenced": True}, {"is_stopping": True}, {"epoch": 1_000}])
def test_a_replica_that_may_be_gone_is_not_preferred(change: dict[str, Any]) -> None:
    async def play(nodes: ClusterNodes) -> None:
        leader_id = await stage(nodes)
        follower_id = next(one for one in nodes.brokers if one != leader_id)
        cluster = nodes.brokers[leader_id].catalog.cluster
        cluster.apply(BrokerSaved(replace(cluster.broker(follower_id), **change)))
        assert read(nodes, leader_id, rack_of(follower_id)).preferred_id == NO_PREFERENCE

    on_racks(play)


def test_a_replica_out_of_sync_is_not_preferred_and_refuses() -> None:
    async def play(nodes: ClusterNodes) -> None:
        leader_id = await stage(nodes)
        follower_id = next(one for one in nodes.brokers if one != leader_id)
        for broker_id in (leader_id, follower_id):
            cluster = nodes.brokers[broker_id].catalog.cluster
            (placed,) = nodes.placed(broker_id, "t")
            without = placed._replace(isr=tuple(one for one in placed.isr if one != follower_id))
            cluster.apply(PartitionSaved(without))
        led = nodes.brokers[leader_id].replication
        assert led is not None
        found = led.leading.find(placed.id)
        assert found is not None
        found.tracker.adopt(without)
        assert read(nodes, leader_id, rack_of(follower_id)).preferred_id == NO_PREFERENCE
        with pytest.raises(NotLeader):
            read(nodes, follower_id, rack_of(follower_id))

    on_racks(play)


def test_reads_from_the_leader_only() -> None:
    async def play(nodes: ClusterNodes) -> None:
        leader_id = await stage(nodes)
        follower_id = next(one for one in nodes.brokers if one != leader_id)
        for broker in nodes.brokers.values():
            broker.settings = replace(broker.settings, read_replica=ReadReplica.LEADER)
        assert read(nodes, leader_id, rack_of(follower_id)).preferred_id == NO_PREFERENCE
        with pytest.raises(NotLeader):
            read(nodes, follower_id, rack_of(follower_id))

    on_racks(play)


def test_a_follower_with_readers_hears_at_once_of_what_is_committed() -> None:
    async def play(nodes: ClusterNodes) -> None:
        leader_id = await stage(nodes)
        follower_id = next(one for one in nodes.brokers if one != leader_id)
        partition, loop = held(nodes, follower_id), asyncio.get_running_loop()

        async def delay_s() -> float:
            """Between the commit and the moment at which the follower has heard of it."""
            end_offset = held(nodes, leader_id).end_offset + 1
            await write(nodes, leader_id, 1)
            written_s = loop.time()
            while partition.high_watermark < end_offset:
                await asyncio.sleep(0.001)
            return loop.time() - written_s

        assert await delay_s() > 0.4, "with the next fetch, for which the leader waits"
        read(nodes, follower_id, rack_of(follower_id), 3)
        await delay_s()
        assert await delay_s() < 0.05

    on_racks(play)


def test_kafkas_names_of_the_setting() -> None:
    assert ReadReplica("org.apache.kafka.common.replica.RackAwareReplicaSelector") is ReadReplica.RACK
    assert ReadReplica(ReadReplica.LEADER.kafka_class.lower()) is ReadReplica.LEADER
    with pytest.raises(ValueError, match="RandomSelector"):
        ReadReplica("org.example.RandomSelector")
