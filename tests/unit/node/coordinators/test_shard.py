"""The shard host: replay in slices, leading and resigning shard by shard, and who is told what."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from group_node import NOBODY, Node, on_a_node, start_node
from penstock.core.errors import BrokerError, Loading, NotCoordinator
from penstock.core.limits import SLICE_UNITS
from penstock.core.machines.offsets.offsets import NO_EXPIRY, Committed, OffsetCommitted
from penstock.core.machines.transactions.values import TransactionState
from penstock.core.model import TopicPartition
from penstock.core.records.batch import decode_header
from penstock.core.records.control import read_marker
from penstock.node.broker import start_broker
from penstock.node.coordinators.committed import NO_RETENTION, NewOffset
from penstock.node.coordinators.group_shard import GroupShard
from penstock.node.coordinators.shard import RECORD_UNITS, YIELD_UNITS, Stage
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.slices import run_unsliced
from penstock.node.settings import Settings
from sim.loop import SimLoop, run
from sim.machine import Machine
from subscription_node import Member, publish, subscribe, turns
from transaction_node import Writer, committed_values

T = TopicPartition("t", 0)
MANY = 4_000


def groups_apart(node: Node) -> tuple[str, str]:
    """Two groups that live on different shards."""
    host = node.group_coordinator.groups.host
    other = next(name for name in map(str, range(100)) if host.at(name) is not host.at("g"))
    return "g", other


async def fill(shard: GroupShard, group: str, count: int, topic: str = "t") -> None:
    """Many committed offsets of one group, each a record."""
    for first in range(0, count, 500):
        events = [
            OffsetCommitted(group, TopicPartition(topic, number), Committed(number, -1, "", 1, NO_EXPIRY))
            for number in range(first, min(first + 500, count))
        ]
        await shard.persisted(shard.persist(events, group))


async def restarted(machine: Machine, **settings: Any) -> Node:
    """The node as it is right after its start, whatever is still being read."""
    runtime = Runtime(machine.clock, machine.rng, machine.files, machine.workers)
    return Node(await start_broker(Settings(data_dir="data", **settings), runtime))


def on_a_large_shard(play: Any) -> None:
    """A node whose group `g` has many records, started again."""

    async def first(machine: Machine) -> tuple[str, str]:
        node = await start_node(machine)
        large, small = groups_apart(node)
        await fill(node.group_coordinator.groups.shard_of(large), large, MANY)
        assert await node.commit(small, 5) == [None]
        await node.broker.stop()
        return large, small

    async def second(machine: Machine) -> None:
        node = await restarted(machine)
        await play(node, *names)
        await node.broker.stop()

    names: tuple[str, str] = "", ""

    async def main(loop: SimLoop) -> None:
        nonlocal names
        machine = Machine(loop, "node")
        names = await machine.boot(first)
        await machine.boot(second)

    run(1, main)


def test_the_loop_turns_while_a_large_shard_is_read_and_calls_get_loading_then_answers() -> None:
    async def play(node: Node, large: str, small: str) -> None:
        shard = node.group_coordinator.groups.host.at(large)
        assert shard.is_loading
        count = 0
        while shard.is_loading:
            assert isinstance(await node.fetch(large), Loading)
            assert isinstance(await node.commit(large, 1), Loading)
            with pytest.raises(Loading):
                node.group_coordinator.groups.list()
            await asyncio.sleep(0)
            count += 1
        assert count > MANY * RECORD_UNITS // (SLICE_UNITS + YIELD_UNITS), (
            "a turn of the loop reads no more than one slice, and the piece that goes beyond it"
        )
        assert await node.fetch(large, partition=MANY - 1) == MANY - 1
        assert await node.commit(large, 7) == [None] and await node.fetch(large) == 7

    on_a_large_shard(play)


def test_one_shard_serves_while_another_is_read() -> None:
    async def play(node: Node, large: str, small: str) -> None:
        assert node.group_coordinator.groups.host.at(large).is_loading
        assert await node.fetch(small) == 5
        outcome: list[Any] = []
        new = NewOffset(T, 6, -1, "")
        node.group_coordinator.committed.commit(small, NOBODY, [new], NO_RETENTION, outcome.append)
        assert outcome == [], "it is taken, and waits for its flush"
        await node.group_coordinator.loaded()
        assert not node.group_coordinator.groups.host.at(large).is_loading
        assert await node.fetch(large, partition=1) == 1

    on_a_large_shard(play)


def test_a_shard_that_resigns_while_it_is_read_stops_reading() -> None:
    async def play(node: Node, large: str, small: str) -> None:
        host = node.group_coordinator.groups.host
        shard = host.at(large)
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(node.group_coordinator.loaded())
        await asyncio.sleep(0)
        host.resign(shard.partition.index)
        await waiting
        assert isinstance(await node.fetch(large), NotCoordinator)
        for _ in range(20):
            await asyncio.sleep(0)
        assert shard.roster.ids == [], "nothing of the old term comes into the fresh machine"
        host.lead(shard.partition.index, shard.epoch + 1)
        await node.group_coordinator.loaded()
        assert await node.fetch(large, partition=MANY - 1) == MANY - 1

    on_a_large_shard(play)


def test_offsets_of_a_topic_that_is_deleted_while_they_are_read_are_dropped() -> None:
    """Also if a topic of the same name is there again when the replay ends, as here."""

    async def play(node: Node, large: str, small: str) -> None:
        assert node.group_coordinator.groups.host.at(large).stage is Stage.REPLAYING
        run_unsliced(node.group_coordinator.committed.forget_topics({"t"}))
        await node.group_coordinator.loaded()
        assert await node.fetch(large, partition=1) is None
        assert await node.fetch(small) is None
        assert await node.commit(large, 3) == [None] and await node.fetch(large) == 3

    on_a_large_shard(play)


def test_whoever_waits_is_told_at_once_when_the_shard_resigns() -> None:
    async def play(node: Node) -> None:
        host = node.group_coordinator.groups.host
        shard = host.at("g")
        joining = asyncio.ensure_future(node.join("g"))
        await asyncio.sleep(0.001)
        end_offset = shard.partition.end_offset
        other = next(name for name in map(str, range(100)) if host.at(name) is shard)
        committing = [asyncio.ensure_future(node.commit(other, number)) for number in range(3)]
        while shard.partition.end_offset < end_offset + 3:
            await asyncio.sleep(0)
        assert shard.partition.high_watermark < shard.partition.end_offset, "the flush is still under way"
        host.resign(shard.partition.index)
        for _ in range(5):
            await asyncio.sleep(0)
        assert shard.partition.high_watermark < shard.partition.end_offset
        assert all(one.done() for one in (joining, *committing)), "nobody waits for the flush"
        assert {type(await one) for one in (joining, *committing)} == {NotCoordinator}
        assert isinstance(await node.commit(other, 9), NotCoordinator)
        assert await node.commit(groups_apart(node)[1], 9) == [None], "the other shards go on"

    on_a_node(play)


def offset_event(group: str) -> OffsetCommitted:
    return OffsetCommitted(group, T, Committed(1, -1, "", 1, NO_EXPIRY))


def test_what_is_durable_already_is_answered_while_others_wait_for_the_flush() -> None:
    async def play(node: Node) -> None:
        shard = node.group_coordinator.groups.host.at("g")
        end_offset = shard.persist([offset_event("a")], "a")
        await shard.persisted(end_offset)
        told: list[str] = []
        shard.when_persisted(shard.persist([offset_event("b")], "b"), lambda error: told.append("b"))
        for what in ("a", end_offset, "c"):
            shard.when_persisted(what, lambda error, what=what: told.append(str(what)))
        assert told == ["a", str(end_offset), "c"]
        await shard.persisted("b")
        assert told[3:] == ["b"], "and in order of arrival"

    on_a_node(play)


def test_a_callback_that_crashes_does_not_keep_the_others_waiting() -> None:
    async def play(node: Node) -> None:
        shard = node.group_coordinator.groups.host.at("g")

        def crash(error: BrokerError | None) -> None:
            raise ZeroDivisionError

        shard.when_persisted(shard.persist([offset_event("a")], "a"), crash)
        told: list[BrokerError | None] = []
        shard.when_persisted(shard.persist([offset_event("b")], "b"), told.append)
        with pytest.raises(ZeroDivisionError):
            shard.partition.advance_high_watermark(shard.partition.end_offset)
        assert told == [None]

    on_a_node(play)


def test_the_next_term_finds_what_the_last_one_appended_even_if_it_was_not_durable_yet() -> None:
    async def play(node: Node) -> None:
        host = node.group_coordinator.groups.host
        shard = host.at("g")
        for epoch in range(1, 6):
            committing = asyncio.ensure_future(node.commit("g", epoch))
            while shard.partition.end_offset == shard.partition.high_watermark:
                await asyncio.sleep(0)
            host.resign(shard.partition.index)
            assert isinstance(await committing, NotCoordinator)
            host.lead(shard.partition.index, epoch)
            assert isinstance(await node.fetch("g"), Loading), "nothing is served before it is durable"
            await node.group_coordinator.loaded()
            assert await node.fetch("g") == epoch

    on_a_node(play)


def test_an_order_to_lead_that_was_overtaken_changes_nothing() -> None:
    async def play(node: Node) -> None:
        host = node.group_coordinator.groups.host
        shard = host.at("g")
        host.lead(shard.partition.index, 5)
        await node.group_coordinator.loaded()
        assert await node.commit("g", 1) == [None]
        machine = shard.machine
        for epoch in (3, 5):
            host.lead(shard.partition.index, epoch)
            assert (shard.epoch, shard.machine) == (5, machine)
        host.resign(shard.partition.index)
        host.lead(shard.partition.index, 4)
        assert shard.stage is Stage.RESIGNED
        host.lead(shard.partition.index, 6)
        await node.group_coordinator.loaded()
        assert await node.fetch("g") == 1 and shard.epoch == 6

    on_a_node(play)


def test_members_get_a_whole_session_from_the_next_coordinator() -> None:
    async def play(node: Node) -> None:
        joined = await node.join("g")
        await node.sync("g", joined, {joined.member_id: b"all"})
        host = node.group_coordinator.groups.host
        index = host.at("g").partition.index
        for epoch in (1, 2):
            await asyncio.sleep(8)
            host.resign(index)
            host.lead(index, epoch)
            await node.group_coordinator.loaded()
            assert await node.beat("g", joined) is None
        await asyncio.sleep(11)
        assert node.group_coordinator.groups.list()[0].state_name == "Empty"

    on_a_node(play)


# -- transactions


def markers_in(partition: Partition) -> list[int]:
    """The coordinator epochs of the markers in a partition, in order."""
    found, offset = [], 0
    while (part := partition.read(offset, 1 << 20)) is not None:
        raw, position = memoryview(part.read()), 0
        while position < len(raw):
            header = decode_header(raw, position)
            if header.is_control:
                marker = read_marker(raw[position : position + header.size], header)
                assert marker is not None
                found.append(marker.coordinator_epoch)
            position += header.size
        offset = part.end_offset
    return found


async def completed(node: Node) -> None:
    """Until every marker stands, which the node sees to by itself."""
    while node.broker.transactions.get("pay").state is not TransactionState.COMPLETE_COMMIT:
        await asyncio.sleep(0.01)


def test_markers_carry_the_epoch_under_which_their_coordinator_leads() -> None:
    async def play(node: Node) -> None:
        writer = Writer(node.broker, "pay")
        await writer.begin()
        await writer.write(T, b"a")
        await writer.end(commit=True)
        host, partition = node.broker.transactions.host, node.broker.partition(*T)
        host.lead(host.at("pay").partition.index, 7)
        await node.broker.transactions.loaded()
        await completed(node)
        await writer.write(T, b"b")
        await writer.end(commit=True)
        assert markers_in(partition) == [0, 7]
        assert partition.leader_epoch == 0, "that is another number"
        assert committed_values(partition) == [b"a", b"b"]

    on_a_node(play)


def test_a_decision_is_carried_out_by_whoever_leads_next() -> None:
    async def play(node: Node) -> None:
        writer = Writer(node.broker, "pay")
        await writer.begin()
        await writer.write(T, b"a")
        host, partition = node.broker.transactions.host, node.broker.partition(*T)
        shard = host.at("pay")
        ending = asyncio.ensure_future(writer.end(commit=True))
        while shard.machine.get("pay").state is not TransactionState.PREPARE_COMMIT:
            await asyncio.sleep(0)
        host.resign(shard.partition.index)
        with pytest.raises(NotCoordinator):
            await ending
        assert partition.last_stable_offset == 0
        host.lead(shard.partition.index, 1)
        await node.broker.transactions.loaded()
        while partition.last_stable_offset < 2:
            await asyncio.sleep(0.01)
        assert committed_values(partition) == [b"a"]
        assert node.broker.transactions.get("pay").state is TransactionState.COMPLETE_COMMIT

    on_a_node(play)


def test_markers_on_their_way_are_let_go_and_written_by_the_next_term() -> None:
    async def play(node: Node) -> None:
        writer = Writer(node.broker, "pay")
        await writer.begin()
        await writer.write(T, b"a")
        host, partition = node.broker.transactions.host, node.broker.partition(*T)
        shard = host.at("pay")
        ending = asyncio.ensure_future(writer.end(commit=True))
        while partition.end_offset < 2:
            await asyncio.sleep(0.0001)
        host.resign(shard.partition.index)
        with pytest.raises(NotCoordinator):
            await ending
        host.lead(shard.partition.index, 1)
        await node.broker.transactions.loaded()
        await completed(node)
        assert markers_in(partition) == [0], "the marker that stood already is not written twice"

    on_a_node(play)


def test_offsets_of_a_transaction_wait_for_their_shard_to_be_read() -> None:
    """A transaction that ends meanwhile is completed once the groups' partition serves again."""

    async def play(node: Node) -> None:
        writer = Writer(node.broker, "pay")
        await writer.begin()
        await writer.pend("g", 50, T)
        groups = node.group_coordinator.groups.host
        index = groups.at("g").partition.index
        groups.resign(index)
        await writer.end(commit=True)
        assert node.broker.transactions.get("pay").state is TransactionState.PREPARE_COMMIT
        groups.lead(index, 1)
        await node.group_coordinator.loaded()
        await completed(node)
        assert await node.fetch("g", require_stable=True) == 50

    on_a_node(play)


# -- subscriptions


def test_members_of_a_subscription_are_told_and_served_again_by_the_next_term() -> None:
    async def play(node: Node) -> None:
        broker = node.broker
        live = await subscribe(broker)
        host, shard = broker.subscriptions.host, live.shard
        member = Member(live, "one")
        await publish(broker, b"a", b"b")
        await turns()
        member.say(member.given[0])
        outcome: list[BrokerError | None] = []
        live.when_settled(outcome.append)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        host.resign(shard.partition.index)
        assert isinstance(member.ended, NotCoordinator)
        assert [type(one) for one in outcome] == [NotCoordinator]
        live.resume("one")
        live.pause("one")
        with pytest.raises(NotCoordinator):
            broker.subscriptions.find(live.name)
        host.lead(shard.partition.index, 1)
        await broker.subscriptions.loaded()
        again = Member(broker.subscriptions.find(live.name), "one")
        await turns()
        assert [one.record.value for one in again.given] == [b"b"], "what was said has been persisted"

    on_a_node(play)
