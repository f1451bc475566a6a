"""Power fails at any disk operation while groups form and commit: what was acknowledged is there afterwards, always."""

from __future__ import annotations

import asyncio

import pytest

from group_node import Node, start_node
from penstock.core.errors import BrokerError
from penstock.node.coordinators.committed import Committer
from sim.loop import SimLoop, run
from sim.machine import Machine

GROUPS = 3
LIVES = 3


class Story:
    """What the clients were told."""

    def __init__(self) -> None:
        self.committed = dict.fromkeys((f"g{n}" for n in range(GROUPS)), -1)
        self.generations = dict.fromkeys(self.committed, 0)


async def be_a_member(node: Node, group: str, story: Story, first: int) -> None:
    """Join alone, commit one offset after the other; note what was acknowledged, in the order of the answers."""
    joined = await node.join(group, session_ms=6_000)
    if isinstance(joined, BrokerError):
        return
    synced = await node.sync(group, joined, {joined.member_id: b"all"})
    if isinstance(synced, BrokerError):
        return
    story.generations[group] = joined.generation
    for offset in range(first, first + 50):
        if await node.commit(group, offset, Committer(joined.member_id, joined.generation)) == [None]:
            story.committed[group] = offset


async def check(node: Node, story: Story) -> None:
    for group, offset in story.committed.items():
        found = await node.fetch(group)
        assert (-1 if found is None else found) >= offset, (
            f"{group}: {offset} was acknowledged, {found} is there"
        )
        machine = node.group_coordinator.groups.find(group)
        if story.generations[group]:
            assert machine is not None and machine.saved.generation >= story.generations[group]  # type: ignore[attr-defined]


async def lives(loop: SimLoop) -> Story:
    chance = loop.random_for("crashes")
    machine, story = Machine(loop, "node"), Story()
    for life in range(LIVES):

        async def live(machine: Machine, life: int = life) -> None:
            node = await start_node(machine)
            await check(node, story)
            if life:
                await asyncio.sleep(8)
            machine.interrupt_at(chance.randint(1, 250), power=chance.random() < 0.7)
            await asyncio.gather(
                *(be_a_member(node, group, story, life * 1_000) for group in story.committed)
            )

        living = machine.boot(live)
        await asyncio.wait([living], timeout=120)
        if living.done() and not living.cancelled():
            living.result()
        if loop.latest("node").alive:
            machine.lose_power()

    async def last(machine: Machine) -> None:
        await check(await start_node(machine), story)

    await machine.boot(last)
    return story


@pytest.mark.parametrize("seed", range(40))
def test_nothing_acknowledged_is_lost(seed: int) -> None:
    run(seed, lives)


def test_the_crashes_fall_where_something_was_acknowledged() -> None:
    """The test above would be worth nothing if power always failed before the first commit."""
    stories = [run(seed, lives) for seed in range(10)]
    assert any(offset > 1_000 for story in stories for offset in story.committed.values())
