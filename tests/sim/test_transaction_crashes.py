"""Power fails at any disk operation while transactions run: each is whole or not at all, and none is left hanging."""

from __future__ import annotations

import asyncio

import pytest

from group_node import Node, start_node
from penstock.core.errors import BrokerError, TransactionBusy
from penstock.core.machines.transactions.values import PREPARED
from penstock.core.model import TopicPartition
from sim.loop import SimLoop, run
from sim.machine import Machine
from transaction_node import Writer, committed_values

LIVES = 3
WRITERS = 2
PLACES = (TopicPartition("t", 0), TopicPartition("u", 0))
ROUNDS = 12
LIFE_S_MAX = 120
"""Virtual seconds: what is not done by then has crashed."""


class Story:
    """What the producers were told of each transaction: committed, aborted, or nothing."""

    def __init__(self) -> None:
        self.told: dict[bytes, str] = {}
        self.offsets: dict[str, tuple[int, int]] = {}
        """Group → the last offset acknowledged as committed, and the last one tried."""


def name(writer: int, life: int, number: int) -> bytes:
    return b"w%d.%d.%d" % (writer, life, number)


async def be_a_producer(node: Node, writer: int, life: int, story: Story) -> None:
    group = f"g{writer}"
    producer = Writer(node.broker, f"w{writer}", is_v2=writer % 2 == 1)
    try:
        await producer.begin()
        for number in range(ROUNDS):
            value, commit = name(writer, life, number), number % 3 != 2
            offset = life * 100 + number
            story.told[value] = "nothing"
            for place in PLACES:
                await producer.write(place, value)
            await producer.pend(group, offset, PLACES[0])
            done, _ = story.offsets.get(group, (-1, -1))
            if commit:
                story.offsets[group] = done, offset
            await producer.end(commit=commit)
            story.told[value] = "committed" if commit else "aborted"
            if commit:
                story.offsets[group] = offset, offset
    except BrokerError:
        return


async def settled(node: Node) -> None:
    """Until every decision was carried out, which the node does by itself."""
    transactions = node.broker.transactions
    while any(one.state in PREPARED for one in transactions.all()):
        await asyncio.sleep(0.1)


async def take_over(node: Node, name: str) -> None:
    """As a client does: until a transaction that has just expired is aborted, it asks again."""
    while True:
        try:
            await Writer(node.broker, name).begin()
        except TransactionBusy:
            await settled(node)
        else:
            return


async def check(node: Node, story: Story) -> None:
    await settled(node)
    for writer in range(WRITERS):
        await take_over(node, f"w{writer}")
    seen = []
    for place in PLACES:
        partition = node.broker.partition(*place)
        assert partition.last_stable_offset == partition.high_watermark, f"a transaction hangs in {place}"
        seen.append(committed_values(partition))
        assert len(set(seen[-1])) == len(seen[-1]), "a record came twice"
    for value, told in story.told.items():
        there = [value in some for some in seen]
        assert all(there) or not any(there), f"{value!r} is torn: {there}"
        assert told == "nothing" or all(there) == (told == "committed"), f"{value!r} was {told}: {there}"
    for group, (done, tried) in story.offsets.items():
        found = await node.fetch(group)
        assert found in {None if done == -1 else done, tried}, (
            f"{group}: {done} was committed, {found} is there"
        )
        value = name(int(group[1:]), tried // 100, tried % 100)
        assert (found == tried) == (value in seen[0]), "offset and records disagree"
        story.offsets[group] = -1 if found is None else found, tried


async def lives(loop: SimLoop) -> Story:
    chance = loop.random_for("crashes")
    machine, story = Machine(loop, "node"), Story()
    for life in range(LIVES):

        async def live(machine: Machine, life: int = life) -> None:
            node = await start_node(machine)
            if node.broker.catalog.find("u") is None:
                await node.broker.auto_create_topic("u")
            if node.broker.transactions.is_open:
                await check(node, story)
            machine.interrupt_at(chance.randint(1, 400), power=chance.random() < 0.7)
            await asyncio.gather(*(be_a_producer(node, writer, life, story) for writer in range(WRITERS)))

        living = machine.boot(live)
        await asyncio.wait([living], timeout=LIFE_S_MAX)
        if living.done() and not living.cancelled():
            living.result()
        if loop.latest("node").alive:
            machine.lose_power()

    async def last(machine: Machine) -> None:
        node = await start_node(machine)
        if node.broker.transactions.is_open:
            await check(node, story)

    await machine.boot(last)
    return story


@pytest.mark.parametrize("seed", range(40))
def test_every_transaction_is_whole_or_not_at_all(seed: int) -> None:
    run(seed, lives)


def test_the_crashes_fall_in_the_middle_of_things() -> None:
    """The test above would be worth nothing if power never failed between the first write and the answer to the end."""
    told = [word for seed in range(10) for word in run(seed, lives).told.values()]
    assert {"committed", "aborted", "nothing"} <= set(told)
