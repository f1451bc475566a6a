"""Settings of a group on virtual time: members hear of them, sessions follow them, a restart keeps them."""

from __future__ import annotations

import asyncio
from typing import Any

from group_node import Node, on_a_node, start_node
from penstock.core.errors import UnknownMember
from penstock.core.machine import GroupKind
from penstock.core.machines.catalog.config_changes import ConfigChange, ConfigOp
from penstock.core.machines.consumer_group.group import MemberHeartbeat
from penstock.core.resource_config import HEARTBEAT_MS, SESSION_MS, ResourceKind
from sim.loop import SimLoop, run
from sim.machine import Machine

DEFAULT_SESSION_MS, DEFAULT_HEARTBEAT_MS = 45_000, 5_000


async def configure(node: Node, **values: str | None) -> None:
    names = {"session": SESSION_MS, "heartbeat": HEARTBEAT_MS}
    changes = [
        ConfigChange(ConfigOp.DELETE if value is None else ConfigOp.SET, names[name], value)
        for name, value in values.items()
    ]
    await node.broker.change(
        lambda catalog: catalog.decide_alter_resource_config(ResourceKind.GROUP, "g", changes)
    )


async def beat(node: Node, epoch: int) -> Any:
    joining: dict[str, Any] = (
        {"rebalance_ms": 60_000, "topic_names": ("t",), "owned": ()} if not epoch else {}
    )
    return await node.ask(
        node.group_coordinator.consumer.heartbeat, "g", MemberHeartbeat(member_id="m", epoch=epoch, **joining)
    )


async def is_member_after(node: Node, silent_ms: int) -> bool:
    """Whether the member is still known after it has been silent for so long."""
    epoch = (await beat(node, 0)).epoch
    await asyncio.sleep(silent_ms / 1000)
    return not isinstance(await beat(node, epoch), UnknownMember)


def test_a_group_that_exists_follows_a_change_with_the_next_heartbeat() -> None:
    async def play(node: Node) -> None:
        joined = await beat(node, 0)
        assert joined.heartbeat_ms == DEFAULT_HEARTBEAT_MS
        await configure(node, heartbeat="7000")
        assert (await beat(node, joined.epoch)).heartbeat_ms == 7_000
        await configure(node, heartbeat=None)
        assert (await beat(node, joined.epoch)).heartbeat_ms == DEFAULT_HEARTBEAT_MS

    on_a_node(play)


def test_the_session_is_the_groups_own() -> None:
    async def play(node: Node) -> None:
        assert not await is_member_after(node, DEFAULT_SESSION_MS + 5_000)
        await configure(node, session="60000")
        assert await is_member_after(node, DEFAULT_SESSION_MS + 5_000)
        assert not await is_member_after(node, 60_000 + 5_000)

    on_a_node(play)


def test_settings_made_before_there_was_a_group_count_and_so_they_do_after_a_restart() -> None:
    async def main(loop: SimLoop) -> None:
        machine = Machine(loop, "node")

        async def first(machine: Machine) -> None:
            node = await start_node(machine)
            await configure(node, heartbeat="9000")
            assert (await beat(node, 0)).heartbeat_ms == 9_000
            await node.broker.stop()

        async def second(machine: Machine) -> None:
            node = await start_node(machine)
            group = node.group_coordinator.groups.find("g")
            assert group is not None and group.kind is GroupKind.CONSUMER
            assert (await beat(node, 0)).heartbeat_ms == 9_000
            await node.broker.stop()

        await machine.boot(first)
        await machine.boot(second)

    run(1, main)
