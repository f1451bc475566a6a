"""A node with its coordinators on a simulated machine, and its calls as awaitables. Opens no door."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from penstock.core.errors import BrokerError, MemberIdRequired
from penstock.core.machines.classic_group.values import (
    JoinCommand,
    Joined,
    LeaveCommand,
    Protocol,
    SyncCommand,
)
from penstock.core.model import TopicPartition
from penstock.core.records.control import Marker
from penstock.node.broker import Broker, start_broker
from penstock.node.coordinators.committed import NO_RETENTION, Committer, NewOffset
from penstock.node.coordinators.groups import TOPIC as GROUPS_TOPIC
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.slices import Sliced, run_unsliced
from penstock.node.settings import Settings
from sim.loop import SimLoop, run
from sim.machine import Machine

T = TypeVar("T")

NOBODY = Committer()


class Node:
    """What members and tools can ask of one node. Errors are returned, not raised: they are answers."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.group_coordinator = broker.group_coordinator

    async def ask(self, verb: Callable[..., Sliced[None] | None], *arguments: Any, **more: Any) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        steps = verb(*arguments, answer.set_result, **more)
        if steps is not None:
            run_unsliced(steps)
        return await answer

    async def join(
        self, group: str, member_id: str = "", *, session_ms: int = 10_000, comes_back: bool = True
    ) -> Any:
        """Join, coming back with the id that was given if need be."""
        command = JoinCommand(
            member_id=member_id,
            fresh_id=self.group_coordinator.classic.fresh_member_id("m"),
            instance_id=None,
            client_id="m",
            client_host="/h",
            session_ms=session_ms,
            rebalance_ms=30_000,
            protocol_type="consumer",
            protocols=(Protocol("range", b""),),
            needs_known_id=True,
            may_skip=True,
        )
        answer = await self.ask(self.group_coordinator.classic.join, group, command)
        if isinstance(answer, MemberIdRequired) and comes_back:
            return await self.join(group, answer.member_id, session_ms=session_ms)
        return answer

    async def sync(self, group: str, joined: Joined, assignments: dict[str, bytes] | None = None) -> Any:
        command = SyncCommand(joined.member_id, None, joined.generation, None, None, assignments or {})
        return await self.ask(self.group_coordinator.classic.sync, group, command)

    async def beat(self, group: str, joined: Joined) -> Any:
        return await self.ask(
            self.group_coordinator.classic.heartbeat, group, joined.member_id, None, joined.generation
        )

    async def leave(self, group: str, member_id: str) -> Any:
        return await self.ask(self.group_coordinator.classic.leave, group, [LeaveCommand(member_id, None)])

    async def commit(
        self, group: str, offset: int, by: Committer = NOBODY, topic: str = "t", partition: int = 0
    ) -> Any:
        new = NewOffset(TopicPartition(topic, partition), offset, -1, "")
        return await self.ask(self.group_coordinator.committed.commit, group, by, [new], NO_RETENTION)

    async def fetch(
        self, group: str, topic: str = "t", partition: int = 0, *, require_stable: bool = False
    ) -> Any:
        """The committed offset, None, or an error."""
        place = TopicPartition(topic, partition)
        found = await self.ask(
            self.group_coordinator.committed.fetch, group, NOBODY, [place], require_stable=require_stable
        )
        one = found if isinstance(found, BrokerError) else found[place]
        return one.offset if hasattr(one, "offset") else one

    async def pend(self, group: str, producer: tuple[int, int], offset: int) -> Any:
        new = NewOffset(TopicPartition("t", 0), offset, -1, "")
        return await self.ask(self.group_coordinator.committed.pend, group, NOBODY, producer, [new])

    async def settle(self, group: str, producer_id: int, *, is_commit: bool) -> BrokerError | None:
        """End the transaction of this producer on the partition that the group lives on."""
        index = self.group_coordinator.groups.shard_of(group).partition.index
        place, marker = TopicPartition(GROUPS_TOPIC, index), Marker(is_commit, 0)
        try:
            await self.broker.markers.end(place, producer_id, 0, marker, is_bumped=False)
        except BrokerError as error:
            return error
        return None


async def start_node(machine: Machine, **settings: Any) -> Node:
    """Recover the machine's node, or make a new one with a topic `t`, ready to coordinate."""
    runtime = Runtime(machine.clock, machine.rng, machine.files, machine.workers)
    broker = await start_broker(Settings(data_dir="data", **settings), runtime)
    if broker.catalog.find("t") is None:
        await broker.auto_create_topic("t")
    await broker.group_coordinator.open()
    for coordinator in (broker.group_coordinator, broker.transactions, broker.subscriptions):
        await coordinator.loaded()
    return Node(broker)


def on_a_node(play: Callable[[Node], Coroutine[Any, Any, T]], *, seed: int = 1, **settings: Any) -> T:
    """Run one scene on a fresh node, on virtual time."""

    async def main(loop: SimLoop) -> T:
        async def scene(machine: Machine) -> T:
            node = await start_node(machine, **settings)
            outcome = await play(node)
            await node.broker.stop()
            return outcome

        return await Machine(loop, "node").boot(scene)

    return run(seed, main)
