"""The host of transactions on virtual time: timeouts, expiry, markers that cannot be written, restarts."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from random import Random

import pytest

from group_node import Node, on_a_node, start_node
from penstock.core.errors import (
    BrokerError,
    DiskFailed,
    FencedProducer,
    InvalidTransactionTimeout,
    TransactionAbortable,
    TransactionBusy,
    UnknownTransaction,
    WrongProducer,
)
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event, TopicSaved
from penstock.core.machines.transactions.transactions import Claim
from penstock.core.machines.transactions.values import Enlisted, TransactionSaved, TransactionState
from penstock.core.model import TopicPartition
from sim.loop import SimLoop, run
from sim.machine import Machine
from transaction_node import Writer, committed_values, transactional_batch

T = TopicPartition("t", 0)


def state(node: Node, name: str = "pay") -> TransactionState:
    return node.broker.transactions.get(name).state


async def until(node: Node, wanted: TransactionState) -> None:
    while state(node) is not wanted:
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("is_v2", [False, True])
def test_committed_is_read_at_once_and_aborted_never(is_v2: bool) -> None:
    async def play(node: Node) -> None:
        writer = Writer(node.broker, "pay", is_v2=is_v2)
        await writer.begin()
        partition = node.broker.partition(*T)
        for number, commit in enumerate((True, False, True)):
            await writer.write(T, b"%d" % number)
            await writer.end(commit=commit)
            assert partition.last_stable_offset == partition.high_watermark
        assert committed_values(partition) == [b"0", b"2"]

    on_a_node(play)


def test_what_takes_too_long_is_aborted_by_itself() -> None:
    async def play(node: Node) -> None:
        writer = Writer(node.broker, "pay", timeout_ms=5_000)
        await writer.begin()
        await writer.write(T, b"slow")
        await asyncio.sleep(4)
        assert state(node) is TransactionState.ONGOING
        await asyncio.sleep(3)
        assert state(node) is TransactionState.COMPLETE_ABORT
        assert committed_values(node.broker.partition(*T)) == []
        with pytest.raises(FencedProducer):
            await writer.end(commit=True)
        with pytest.raises(FencedProducer):
            await writer.write(T, b"more")

    on_a_node(play, transaction_check_ms=500)


def test_ids_that_nobody_uses_are_forgotten_and_stay_so() -> None:
    async def main(loop: SimLoop) -> None:
        machine = Machine(loop, "node")

        async def first(machine: Machine) -> None:
            node = await start_node(machine, transactional_id_expiry_ms=10_000, transaction_check_ms=1_000)
            await Writer(node.broker, "pay").begin()
            busy = Writer(node.broker, "busy")
            await busy.begin()
            await busy.write(T, b"x")
            await asyncio.sleep(15)
            assert [one.transactional_id for one in node.broker.transactions.all()] == ["busy"]
            await node.broker.stop()

        async def second(machine: Machine) -> None:
            node = await start_node(machine)
            with pytest.raises(UnknownTransaction):
                node.broker.transactions.get("pay")
            await node.broker.stop()

        await machine.boot(first)
        await machine.boot(second)

    run(1, main)


def test_a_partition_that_is_offline_holds_up_the_end_but_not_the_decision() -> None:
    """The producer is told once the decision is kept; the rest is tried until it works: here, the topic is deleted."""

    async def play(node: Node) -> None:
        await node.broker.auto_create_topic("u")
        writer = Writer(node.broker, "pay")
        await writer.begin()
        await writer.write(T, b"a")
        await writer.write(TopicPartition("u", 0), b"a")
        node.broker.partition("u", 0).fail(DiskFailed("the disk is gone"))
        await writer.end(commit=True)
        assert state(node) is TransactionState.PREPARE_COMMIT
        assert committed_values(node.broker.partition(*T)) == [b"a"], "the others are not held up"
        with pytest.raises(TransactionBusy):
            await writer.end(commit=True)
        with pytest.raises(TransactionBusy):
            await Writer(node.broker, "pay").begin()
        await node.broker.change(lambda catalog: catalog.decide_delete_topic("u"))
        await until(node, TransactionState.COMPLETE_COMMIT)
        await Writer(node.broker, "pay").begin()

    on_a_node(play)


def test_a_topic_that_is_deleted_in_between_needs_no_marker() -> None:
    async def play(node: Node) -> None:
        await node.broker.auto_create_topic("u")
        writer = Writer(node.broker, "pay")
        await writer.begin()
        await writer.write(TopicPartition("u", 0), b"a")
        await writer.write(T, b"a")
        await node.broker.change(lambda catalog: catalog.decide_delete_topic("u"))
        await writer.end(commit=True)
        assert state(node) is TransactionState.COMPLETE_COMMIT
        assert committed_values(node.broker.partition(*T)) == [b"a"]

    on_a_node(play)


async def create_again(node: Node, topic: str) -> None:
    """Delete a topic and create another of the same name in one step, so that nothing comes in between."""
    topic_id = node.broker.new_topic_id()

    def decide(catalog: Catalog) -> list[Event]:
        other = replace(catalog.topic(topic), id=topic_id)
        return [*catalog.decide_delete_topic(topic), TopicSaved(other)]

    await node.broker.change(decide)


@pytest.mark.parametrize("commit", [True, False])
@pytest.mark.parametrize("is_v2", [False, True])
def test_no_marker_goes_to_a_topic_that_was_created_again(is_v2: bool, commit: bool) -> None:
    """It would make the producer known there without a batch, and refuse its next sequence number."""

    async def play(node: Node) -> None:
        writer = Writer(node.broker, "pay", is_v2=is_v2)
        await writer.begin()
        await writer.write(T, b"gone", b"too")
        await create_again(node, "t")
        await writer.end(commit=commit)
        assert state(node) in (TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)
        partition = node.broker.partition(*T)
        assert partition.end_offset == 0
        await writer.write(T, b"next")
        await writer.end(commit=True)
        assert committed_values(partition) == [b"next"]
        assert partition.last_stable_offset == partition.high_watermark == 2

    on_a_node(play)


@pytest.mark.parametrize("is_v2", [False, True])
def test_a_transaction_may_go_on_in_the_topic_that_was_created_again(is_v2: bool) -> None:
    """A producer of protocol V1 does not add the partition again: to it, it is the one that it has added."""

    async def play(node: Node) -> None:
        writer = Writer(node.broker, "pay", is_v2=is_v2)
        await writer.begin()
        await writer.write(T, b"gone")
        await create_again(node, "t")
        await writer._admitted(T)
        appended = node.broker.partition(*T).append(
            memoryview(transactional_batch(writer.by, 1, [b"stays"])), in_transaction=True
        )
        assert appended.base_offset == 0
        await writer.end(commit=True)
        partition = node.broker.partition(*T)
        assert committed_values(partition) == [b"stays"]
        assert partition.last_stable_offset == partition.high_watermark == 2

    on_a_node(play)


@pytest.mark.parametrize("is_v2", [False, True])
def test_whenever_a_topic_is_created_again_no_transaction_stays_open_in_it(is_v2: bool) -> None:
    """Also while the partition is being added: the batch goes to the new topic then, and so must the marker."""
    found: set[bool] = set()

    async def play(node: Node) -> None:
        writer = Writer(node.broker, "pay", is_v2=is_v2)
        await writer.begin()
        if not is_v2:
            await node.broker.transactions.add("pay", writer.by, [T], is_v2=False)
            await create_again(node, "t")
        before, done = node.broker.partition(*T), asyncio.get_running_loop().create_future()

        def admitted(error: BrokerError | None) -> None:
            assert error is None, error
            partition = node.broker.partition(*T)
            found.add(partition is before)
            batch = transactional_batch(writer.by, 0, [b"a"])
            done.set_result(partition.append(memoryview(batch), in_transaction=True))

        creating = asyncio.ensure_future(create_again(node, "t"))
        await asyncio.sleep(random.random() / 1_000)
        node.broker.transactions.admit("pay", writer.by, [T], admitted, may_add=is_v2)
        await done
        await creating
        await writer.end(commit=True)
        partition = node.broker.partition(*T)
        assert partition.last_stable_offset == partition.end_offset
        assert committed_values(partition) == ([] if partition.end_offset == 0 else [b"a"])

    for seed in range(1, 25):
        random = Random(seed)
        on_a_node(play, seed=seed)
    assert found == {True, False}


def test_what_an_earlier_version_stored_without_ids_gets_its_marker_by_name() -> None:
    async def play(node: Node) -> None:
        writer = Writer(node.broker, "pay")
        await writer.begin()
        await writer.write(T, b"a")
        (shard,) = [
            one for one in node.broker.transactions.host.shards if one.machine.find("pay") is not None
        ]
        stored = shard.machine.get("pay")
        shard.machine.apply(TransactionSaved(stored._replace(partitions=(Enlisted(*T),))))
        await writer.end(commit=True)
        assert committed_values(node.broker.partition(*T)) == [b"a"]

    on_a_node(play)


def test_a_new_producer_waits_for_the_abort_of_the_old_one() -> None:
    async def play(node: Node) -> None:
        old, new = Writer(node.broker, "pay"), Writer(node.broker, "pay")
        await old.begin()
        await old.write(T, b"old")
        await new.begin()
        assert new.by == (old.by.producer_id, old.by.producer_epoch + 2)
        await new.write(T, b"new")
        await new.end(commit=True)
        assert committed_values(node.broker.partition(*T)) == [b"new"]
        with pytest.raises(FencedProducer):
            await old.end(commit=True)

    on_a_node(play)


def test_two_new_producers_at_once_get_epochs_of_their_own() -> None:
    async def play(node: Node) -> None:
        writers = [Writer(node.broker, "pay") for _ in range(5)]
        await asyncio.gather(*(writer.begin() for writer in writers))
        assert sorted(writer.by.producer_epoch for writer in writers) == [0, 1, 2, 3, 4]
        assert len({writer.by.producer_id for writer in writers}) == 1

    on_a_node(play)


def test_nobody_is_vouched_for_before_there_is_a_coordinator() -> None:
    async def play(node: Node) -> None:
        with pytest.raises(WrongProducer):
            node.broker.transactions.check("pay", Claim(1, 0), [T])
        assert node.broker.transactions.all() == []

    on_a_node(play)


@pytest.mark.parametrize("timeout_ms", [0, -5, 60_001])
def test_timeouts_have_bounds(timeout_ms: int) -> None:
    async def play(node: Node) -> None:
        with pytest.raises(InvalidTransactionTimeout):
            await Writer(node.broker, "pay", timeout_ms=timeout_ms).begin()

    on_a_node(play, transaction_ms_max=60_000)


def test_the_settings_of_a_topic_do_not_weaken_its_markers() -> None:
    """A marker is on disk before its transaction counts as complete, even where records are not flushed one by one."""

    async def play(node: Node) -> None:
        now_ms = node.broker.runtime.clock.now_ms()
        await node.broker.change(
            lambda catalog: catalog.decide_create_topic(
                "lazy", 1, {"penstock.durability": "os"}, topic_id=node.broker.new_topic_id(), now_ms=now_ms
            )
        )
        writer = Writer(node.broker, "pay")
        await writer.begin()
        await writer.write(TopicPartition("lazy", 0), b"a")
        partition = node.broker.partition("lazy", 0)
        assert partition.recovery_point == 0
        await writer.end(commit=True)
        assert partition.recovery_point == 2

    on_a_node(play)


def test_a_batch_that_waited_while_its_transaction_timed_out_is_refused() -> None:
    async def play(node: Node) -> None:
        writer = Writer(node.broker, "pay", is_v2=True, timeout_ms=1_000)
        await writer.begin()
        shard = node.broker.transactions._shard_of("pay")
        outcome: list[object] = []
        node.broker.transactions.admit("pay", writer.by, [T], outcome.append, may_add=True)
        assert outcome == [], "the partition is not durably in the transaction yet"
        shard.persist(shard.machine.decide_fence("pay", 99), "pay")
        while not outcome:
            await asyncio.sleep(0.01)
        assert isinstance(outcome[0], FencedProducer | TransactionAbortable)

    on_a_node(play)
