"""Several brokers in one process on virtual time, with the model of a shared metadata log. Asserts nothing.

With `has_doors` each of them listens for Kafka clients and for links on the simulated network.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from in_process_client import KAFKA_ONLY
from penstock.apps.doorways import Doorways
from penstock.core.errors import BrokerError
from penstock.core.machines.cluster.values import PartitionReplicas
from penstock.core.model import Address, PartitionId
from penstock.node.broker import Broker, start_broker
from penstock.node.cluster.metadata_log import SharedMetadataLog
from penstock.node.runtime.runtime import Runtime
from penstock.node.settings import Settings
from penstock.node.topic_creation import NewTopic
from sim.loop import SimLoop, run
from sim.machine import Machine
from sim.metadata_model import ModelMetadataLog, ModelStore

T = TypeVar("T")

KAFKA_PORT = 9092
POLL_S = 0.01
DELAY_S = 0.02
"""Of every call to the store, each way."""
WAIT_S_MAX = 60.0


class ClusterNodes:
    """Machines and brokers by id, on one store."""

    def __init__(
        self,
        loop: SimLoop,
        store: ModelStore,
        name: str = "node",
        *,
        has_doors: bool = False,
        factor: int = 1,
        rack: str = "",
    ) -> None:
        self.store = store
        self.net = loop.net
        self._name = name
        self._loop = loop
        self._has_doors = has_doors
        self._factor = factor
        """The default replication factor."""
        self._rack = rack
        """Of all brokers; without one, each is on a machine of its own."""
        self._machines: dict[int, Machine] = {}
        self._stops: dict[int, asyncio.Event] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self.brokers: dict[int, Broker] = {}
        self.doors: dict[int, Doorways] = {}

    async def start(self, *broker_ids: int) -> None:
        """Start these brokers together; returns once all are active."""
        waits = []
        for broker_id in broker_ids:
            machine = self._machines.setdefault(broker_id, Machine(self._loop, self.host(broker_id)))
            ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._stops[broker_id] = asyncio.Event()
            self._tasks[broker_id] = machine.boot(self._life(broker_id, ready))
            waits.append(ready)
        await asyncio.gather(*waits)

    def _life(
        self, broker_id: int, ready: asyncio.Future[None]
    ) -> Callable[[Machine], Coroutine[Any, Any, None]]:
        async def life(machine: Machine) -> None:
            async def open_shared(cluster_id: str, seen_index: int) -> SharedMetadataLog:
                return ModelMetadataLog(self.store, lambda: DELAY_S)

            runtime = Runtime(machine.clock, machine.rng, machine.files, machine.workers, boot_id="boot-1")
            try:
                address = Address(self.host(broker_id), KAFKA_PORT)
                settings = Settings(
                    data_dir="data",
                    node_id=broker_id,
                    host=address.host,
                    port=address.port,
                    default_replication_factor=self._factor,
                    rack=self._rack,
                    **KAFKA_ONLY,
                )
                broker = await start_broker(settings, runtime, open_shared)
                doors = Doorways(broker) if self._has_doors else None
                if doors is not None:
                    await doors.open()
                await broker.join({"kafka": address})
                if doors is not None:
                    await doors.serve(address)
                    self.doors[broker_id] = doors
            except BrokerError as error:
                ready.set_exception(error)
                return
            self.brokers[broker_id] = broker
            ready.set_result(None)
            await self._stops[broker_id].wait()
            await broker.announce_stop()
            if doors is not None:
                await doors.close()
            await broker.stop()

        return life

    async def stop(self, *broker_ids: int) -> None:
        """Stop these brokers cleanly, together."""
        for broker_id in broker_ids:
            self._stops[broker_id].set()
        await asyncio.gather(*(self._tasks[broker_id] for broker_id in broker_ids))
        for broker_id in broker_ids:
            del self.brokers[broker_id]

    def kill(self, broker_id: int) -> None:
        """kill -9; its session lives on until `expire`."""
        del self.brokers[broker_id]
        self._machines[broker_id].kill()

    def expire(self, broker_id: int) -> None:
        """The store gives up the sessions of a broker."""
        for live in self.store.sessions.live:
            if live.holder == broker_id:
                self.store.sessions.end(live)

    def host(self, broker_id: int) -> str:
        """The machine of a broker."""
        return f"{self._name}-{broker_id}"

    async def run_on(self, broker_id: int, work: Coroutine[Any, Any, T]) -> T:
        """Run something on the machine of a broker, so that its connections start there."""
        return await self._loop.spawn(self.host(broker_id), work)

    async def create(self, broker_id: int, topic: str, partitions: int) -> None:
        await self.brokers[broker_id].create_topic(NewTopic(topic, partitions))

    def placed(self, broker_id: int, topic: str) -> list[PartitionReplicas]:
        """The partitions of a topic as one broker knows them."""
        catalog = self.brokers[broker_id].catalog
        found = catalog.find(topic)
        count = 0 if found is None else found.partition_count
        return [
            catalog.cluster.partition(PartitionId(found.id, index))
            for index in range(count)
            if found is not None
        ]

    def leader(self, topic: str, index: int = 0) -> Broker:
        """The running broker that leads a partition."""
        (found,) = (one for one in self.brokers.values() if one.find_led(topic, index) is not None)
        return found

    async def converged(self) -> None:
        """Wait until every broker has applied everything."""
        await until(lambda: all(one.metadata_end == self.store.end_index for one in self.brokers.values()))


async def until(holds: Callable[[], bool]) -> None:
    """Wait on virtual time; fails if it takes a minute of it."""
    async with asyncio.timeout(WAIT_S_MAX):
        while not holds():
            await asyncio.sleep(POLL_S)


def on_a_cluster(
    play: Callable[[ClusterNodes], Coroutine[Any, Any, None]],
    brokers: int = 3,
    seed: int = 1,
    *,
    has_doors: bool = False,
    factor: int = 1,
    rack: str = "",
) -> None:
    """Run one scene on a fresh cluster with the brokers 1 to n."""

    async def main(loop: SimLoop) -> None:
        nodes = ClusterNodes(loop, ModelStore(), has_doors=has_doors, factor=factor, rack=rack)
        await nodes.start(*range(1, brokers + 1))
        await play(nodes)
        await nodes.stop(*nodes.brokers)

    run(seed, main)
