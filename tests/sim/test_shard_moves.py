"""Coordinators that move while transactions run: what was answered holds, whatever term it was said in."""

from __future__ import annotations

import asyncio
import random

import pytest

from group_node import Node, start_node
from sim.loop import SimLoop, run
from sim.machine import Machine
from sim.test_transaction_crashes import WRITERS, Story, be_a_producer, check

ROUNDS = 4
MOVES = 12


async def move(node: Node, chance: random.Random) -> int:
    """Resign and lead again, shard after shard, at any time; returns how often."""
    moves = 0
    for _ in range(MOVES):
        await asyncio.sleep(chance.uniform(0, 0.02))
        host = chance.choice([node.broker.transactions.host, node.group_coordinator.groups.host])
        if not host.is_open:
            continue
        moves += 1
        index = chance.randrange(len(host.shards))
        host.resign(index)
        await asyncio.sleep(chance.choice([0, 0, 0.005]))
        host.lead(index, host.shards[index].epoch + 1)
    return moves


async def live(loop: SimLoop) -> tuple[Story, int]:
    chance, story, moves = loop.random_for("moves"), Story(), 0

    async def scene(machine: Machine) -> None:
        nonlocal moves
        # Few shards, so that moves hit what is busy.
        node = await start_node(machine, group_topic_partitions=2, transaction_topic_partitions=2)
        await node.broker.auto_create_topic("u")
        for life in range(ROUNDS):
            moving = asyncio.ensure_future(move(node, chance))
            await asyncio.gather(*(be_a_producer(node, writer, life, story) for writer in range(WRITERS)))
            moves += await moving
            for coordinator in (node.broker.transactions, node.group_coordinator):
                await coordinator.loaded()
            await check(node, story)
        await node.broker.stop()

    await Machine(loop, "node").boot(scene)
    return story, moves


@pytest.mark.parametrize("seed", range(1, 16))
def test_every_transaction_is_whole_or_not_at_all(seed: int) -> None:
    run(seed, live)


def test_the_moves_fall_in_the_middle_of_things() -> None:
    told, moves = [], 0
    for seed in range(1, 6):
        story, count = run(seed, live)
        told += story.told.values()
        moves += count
    assert {"committed", "aborted", "nothing"} <= set(told)
    assert moves > 50
