"""A few brokers with their doors on virtual time, for scenes in which partitions move. Asserts nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from typing import Any, TypeVar

from penstock.core.errors import BrokerError
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.core.machines.cluster.reassignment import decide_cancel, decide_reassign
from penstock.core.machines.cluster.values import PartitionReplicas
from penstock.core.model import NewRecord, PartitionId
from penstock.core.records.batch import decode_header
from penstock.core.records.build import build_batch, open_batch
from penstock.node.broker import Broker
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.tasks import resolver
from penstock.node.settings import Settings
from penstock.node.topic_creation import NewTopic, ReplicaAssignment
from sim import cluster_machines
from sim.cluster_machines import BrokerMachine, State
from sim.cluster_store import ModelledStore
from sim.cluster_watch import Watch, watching
from sim.loop import SimLoop, run

POLL_S = 0.01
WAIT_S_MAX = 120.0
TOPIC = "orders"

T = TypeVar("T")


class MoveStage:
    """Brokers 1 to n on one store. `watch` knows what the store has taken if the scene is watched."""

    def __init__(self, loop: SimLoop, count: int, *, is_watched: bool = False) -> None:
        self.loop = loop
        self.machines: dict[int, BrokerMachine] = {}
        self.watch = Watch(loop, self.machines)
        self.store = ModelledStore(loop, self.watch.taken if is_watched else lambda *_: None)
        for number in range(1, count + 1):
            self.machines[number] = BrokerMachine(loop, self.store, number)

    async def start(self, *broker_ids: int) -> None:
        for broker_id in broker_ids:
            self.machines.setdefault(broker_id, BrokerMachine(self.loop, self.store, broker_id)).start()
        await self.until(
            lambda: all(self.machines[one].state is State.SERVING for one in broker_ids or self.machines)
        )

    async def until(self, holds: Callable[[], bool]) -> None:
        """Wait on virtual time; fails if it takes minutes of it."""
        async with asyncio.timeout(WAIT_S_MAX):
            while not holds():
                await asyncio.sleep(POLL_S)

    def broker(self, broker_id: int) -> Broker:
        broker = self.machines[broker_id].broker
        assert broker is not None
        return broker

    @property
    def anyone(self) -> Broker:
        """A broker that serves."""
        return next(
            one.broker
            for one in self.machines.values()
            if one.broker is not None and one.state is State.SERVING
        )

    # -- topics and records

    async def create(self, *replicas: int | Sequence[int], topic: str = TOPIC, **overrides: str) -> None:
        """A topic with a partition on each of these brokers, or on each of these sets of them."""
        settings = {key.replace("_", "."): value for key, value in overrides.items()}
        assigned = [
            ReplicaAssignment(index, [one] if isinstance(one, int) else one)
            for index, one in enumerate(replicas)
        ]
        new = NewTopic(topic, overrides=settings, assignments=assigned)
        await self._as_broker(lambda broker: broker.create_topic(new))
        await self.until(lambda: all(one.catalog.find(topic) is not None for one in self._running()))

    def _running(self) -> list[Broker]:
        return [one.broker for one in self.machines.values() if one.broker is not None]

    def partition(self, broker_id: int, index: int = 0, topic: str = TOPIC) -> Partition:
        """The replica on one broker."""
        broker = self.broker(broker_id)
        found = broker.find_held(PartitionId(broker.catalog.topic(topic).id, index))
        assert found is not None, f"broker {broker_id} holds no replica of {topic}-{index}"
        return found

    def holds(self, broker_id: int, index: int = 0, topic: str = TOPIC) -> bool:
        broker = self.broker(broker_id)
        known = broker.catalog.find(topic)
        return known is not None and broker.find_held(PartitionId(known.id, index)) is not None

    def append(self, broker_id: int, *values: bytes, index: int = 0, topic: str = TOPIC) -> None:
        """One batch for each value; the value is the key as well."""
        partition = self.partition(broker_id, index, topic)
        for value in values:
            now_ms = self.broker(broker_id).runtime.clock.now_ms()
            self.on_host(
                broker_id, partition.append, memoryview(build_batch([NewRecord(value, value)], now_ms))
            )

    def on_host(self, broker_id: int, act: Callable[..., T], *args: Any) -> T:
        """Act as a broker does: what begins by it ends with the broker's process."""
        return self.loop.latest(self.machines[broker_id].name).context().run(act, *args)

    async def write(self, *values: bytes, index: int = 0, topic: str = TOPIC) -> None:
        """As a producer with acks=all: append to the leader, wait until it is committed, try again elsewhere."""
        for value in values:
            await asyncio.wait_for(self._write(value, index, topic), WAIT_S_MAX)

    async def _write(self, value: bytes, index: int, topic: str) -> None:
        while True:
            with suppress(BrokerError, StopIteration, AssertionError, KeyError):
                leader_id = self.placed(index, topic).leader
                broker = self.broker(leader_id)
                leader = broker.partition(topic, index)
                batch = memoryview(build_batch([NewRecord(value, value)], broker.runtime.clock.now_ms()))
                done: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
                appended = self.on_host(leader_id, leader.append, batch)
                leader.when_committed(appended.end_offset, resolver(done))
                if await done is None:
                    return
            await asyncio.sleep(POLL_S)

    def placed(self, index: int = 0, topic: str = TOPIC) -> PartitionReplicas:
        """Where a partition is, as somebody knows it."""
        catalog = self.anyone.catalog
        return catalog.cluster.partition(PartitionId(catalog.topic(topic).id, index))

    # -- moves

    async def move(self, *target: int, index: int = 0, topic: str = TOPIC) -> None:
        """Start to move a partition."""
        place = PartitionId(self.anyone.catalog.topic(topic).id, index)
        await self.change(lambda catalog: decide_reassign(catalog.cluster, place, target))

    async def cancel(self, index: int = 0, topic: str = TOPIC) -> None:
        place = PartitionId(self.anyone.catalog.topic(topic).id, index)

        await self.change(lambda catalog: decide_cancel(catalog.cluster, place))

    async def change(self, decide: Callable[[Catalog], Sequence[Event]]) -> None:
        """Change the metadata."""
        await self._as_broker(lambda broker: broker.change(decide))

    async def _as_broker(self, act: Callable[[Broker], Coroutine[Any, Any, Any]]) -> None:
        """Act on the host of a broker that serves."""
        broker = self.anyone
        await self.loop.spawn(self.machines[broker.identity.node_id].name, act(broker))

    async def moved(self, target: int, index: int = 0, topic: str = TOPIC) -> Partition:
        """Wait until a partition is led by its new broker; returns it."""

        def is_there() -> bool:
            placed, machine = self.placed(index, topic), self.machines[target]
            return (
                machine.broker is not None
                and not placed.is_moving
                and placed.leader == target
                and self.holds(target, index, topic)
                and self.partition(target, index, topic).is_leader
            )

        await self.until(is_there)
        return self.partition(target, index, topic)


def stored(partition: Partition) -> list[bytes]:
    """Every batch of a log, as it is stored."""
    log = partition.log
    return [
        bytes(found.raw) for segment in log.segments for found in segment.walk(0, segment.size, verify=True)
    ]


def values_of(partition: Partition) -> list[bytes]:
    """The values of all committed records."""
    found = []
    for raw in stored(partition):
        header = decode_header(raw)
        found += [record.value or b"" for record in open_batch(memoryview(raw), header)]
    return found


def on_stage(
    play: Callable[[MoveStage], Coroutine[Any, Any, None]],
    brokers: int = 2,
    seed: int = 1,
    is_watched: bool = False,
    **settings: Any,
) -> None:
    """Run one scene on a fresh cluster. All invariants of replicas are checked if it is watched."""
    before: Settings = cluster_machines.SETTINGS
    cluster_machines.SETTINGS = replace(before, **settings)

    async def main(loop: SimLoop) -> None:
        stage = MoveStage(loop, brokers, is_watched=is_watched)
        with watching(stage.watch) if is_watched else nullcontext():
            await stage.start(*stage.machines)
            await play(stage)

    try:
        run(seed, main)
    finally:
        cluster_machines.SETTINGS = before
