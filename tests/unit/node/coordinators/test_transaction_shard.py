"""Markers for partitions of a broker that was down, and of a coordinator that resigns while it ends a transaction."""

from __future__ import annotations

import asyncio

import pytest

from cluster_nodes import ClusterNodes, on_a_cluster, until
from penstock.core.errors import BrokerError, NotCoordinator
from penstock.core.machines.transactions.transactions import Claim
from penstock.core.machines.transactions.values import TransactionState
from penstock.core.model import TopicPartition
from penstock.node.broker import Broker
from penstock.node.coordinators.transaction_shard import RETRY_S_MAX
from penstock.node.coordinators.transactions import TOPIC as TRANSACTIONS_TOPIC
from penstock.node.replicas.offset_waits import Settled
from transaction_node import transactional_batch

NAME, PARTITIONS = "pay", 3


async def coordinator_of(nodes: ClusterNodes) -> Broker:
    await nodes.brokers[1].transactions.open()
    await nodes.converged()
    index = nodes.brokers[1].transactions.host.index_of(NAME)
    found = nodes.leader(TRANSACTIONS_TOPIC, index)
    await found.transactions.loaded()
    return found


def test_a_transaction_is_completed_when_the_broker_of_its_partition_is_back() -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", PARTITIONS)
        coordinator = await coordinator_of(nodes)
        index, other = next(
            (index, broker)
            for index in range(PARTITIONS)
            if (broker := nodes.leader("t", index)) is not coordinator
        )
        place, other_id = TopicPartition("t", index), other.identity.node_id
        by = Claim(*await coordinator.transactions.init(NAME, 60_000, None))
        await coordinator.transactions.add(NAME, by, [place], is_v2=False)
        other.partition(*place).append(memoryview(transactional_batch(by, 0, [b"one"])), in_transaction=True)
        nodes.kill(other_id)
        nodes.expire(other_id)
        await until(lambda: coordinator.leader_of(*place) != other_id)
        await coordinator.transactions.end(NAME, by, commit=True, is_v2=False)
        await asyncio.sleep(4 * RETRY_S_MAX)  # by now the pauses are as long as they get
        assert coordinator.transactions.get(NAME).state is TransactionState.PREPARE_COMMIT
        await nodes.start(other_id)
        async with asyncio.timeout(RETRY_S_MAX / 10):
            while coordinator.transactions.get(NAME).state is not TransactionState.COMPLETE_COMMIT:
                await asyncio.sleep(0.01)

    on_a_cluster(play, has_doors=True)


def test_a_coordinator_that_resigns_when_the_decision_is_durable_writes_no_markers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def play(nodes: ClusterNodes) -> None:
        await nodes.create(1, "t", 1)
        coordinator = await coordinator_of(nodes)
        transactions = coordinator.transactions
        by = Claim(*await transactions.init(NAME, 60_000, None))
        await transactions.add(NAME, by, [TopicPartition("t", 0)], is_v2=False)
        shard = transactions._shard_of(NAME)
        when_persisted = shard.when_persisted

        def lost_when_persisted(what: str | int, settled: Settled) -> None:
            def lose(error: BrokerError | None) -> None:
                settled(error)
                shard.resign("another broker coordinates it")

            when_persisted(what, lose)

        monkeypatch.setattr(shard, "when_persisted", lost_when_persisted)
        with pytest.raises(NotCoordinator):
            await transactions.end(NAME, by, commit=True, is_v2=False)
        monkeypatch.undo()
        await asyncio.sleep(1)
        assert shard.partition.failure is None, "nothing crashed"

    on_a_cluster(play)
