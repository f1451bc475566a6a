"""A cluster on virtual time whose brokers have all their doors open, and clients on machines of their own. Asserts
nothing."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any

from cluster_nodes import DELAY_S, ClusterNodes
from penstock.apps.doorways import Doorways
from penstock.core.errors import BrokerError
from penstock.core.model import Address
from penstock.node.broker import start_broker
from penstock.node.cluster.metadata_log import SharedMetadataLog
from penstock.node.coordinators.subscriptions import TOPIC as SUBSCRIPTIONS_TOPIC
from penstock.node.coordinators.subscriptions import TOPIC_CONFIG
from penstock.node.runtime.runtime import Runtime
from penstock.node.settings import Settings
from sim.loop import SimLoop, run
from sim.machine import Machine
from sim.metadata_model import ModelMetadataLog, ModelStore

COORDINATOR_PARTITIONS = 12
PORTS = {"kafka": 9092, "text": 9093, "json": 9094, "queue": 9999, "http": 8080}


class DoorNodes(ClusterNodes):
    """Brokers by id, each with its doors."""

    def __init__(self, loop: SimLoop, store: ModelStore, settings: dict[str, Any]) -> None:
        super().__init__(loop, store)
        self._settings = settings
        self.loop = loop
        self.doors: dict[int, Doorways] = {}

    def _life(
        self, broker_id: int, ready: asyncio.Future[None]
    ) -> Callable[[Machine], Coroutine[Any, Any, None]]:
        async def life(machine: Machine) -> None:
            async def open_shared(cluster_id: str, seen_index: int) -> SharedMetadataLog:
                return ModelMetadataLog(self.store, lambda: DELAY_S)

            runtime = Runtime(machine.clock, machine.rng, machine.files, machine.workers, boot_id="boot-1")
            host = f"node-{broker_id}"
            settings = Settings(
                data_dir="data",
                node_id=broker_id,
                host=host,
                port=PORTS["kafka"],
                text_port=PORTS["text"],
                json_port=PORTS["json"],
                queue_port=PORTS["queue"],
                http_port=PORTS["http"],
                **{"default_replication_factor": 1, **self._settings},
            )
            try:
                broker = await start_broker(settings, runtime, open_shared)
                doors = Doorways(broker)
                await doors.open()
                await broker.join({name: Address(host, port) for name, port in PORTS.items()})
                await doors.serve(Address(host, PORTS["kafka"]))
            except BrokerError as error:
                ready.set_exception(error)
                return
            self.brokers[broker_id] = broker
            self.doors[broker_id] = doors
            ready.set_result(None)
            await self._stops[broker_id].wait()
            await broker.announce_stop()
            await doors.close()
            await broker.stop()

        return life

    # -- subscriptions

    async def open_subscriptions(self) -> None:
        """Create the topic of the subscriptions' coordinators, with enough partitions for every broker to have some."""
        topic = SUBSCRIPTIONS_TOPIC, COORDINATOR_PARTITIONS, TOPIC_CONFIG, True
        await self.spawn("node-1", self.brokers[1].own_topic(*topic))
        await self.converged()
        for broker_id, broker in self.brokers.items():
            await self.spawn(f"node-{broker_id}", broker.subscriptions.loaded())

    def subscription_at(self, broker_id: int, *, not_named: str = "") -> str:
        """The name of a subscription that this broker would coordinate."""
        broker = next(iter(self.brokers.values()))
        host = broker.subscriptions.host
        for number in range(1_000):
            name = f"work-{number}"
            if name != not_named and broker.leader_of(SUBSCRIPTIONS_TOPIC, host.index_of(name)) == broker_id:
                return name
        raise AssertionError(f"broker {broker_id} coordinates nothing")

    def spawn(self, machine: str, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a client on a machine of its own."""
        return self.loop.spawn(machine, work)


class JsonClient:
    """A client of the JSON door over a stream."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def connect(cls, broker_id: int) -> JsonClient:
        return cls(*await asyncio.open_connection(f"node-{broker_id}", PORTS["json"]))

    async def ask(self, command: str, **fields: Any) -> dict[str, Any]:
        raw = json.dumps({"command": command, **fields}).encode()
        self._writer.write(len(raw).to_bytes(4, "big") + raw)
        size = int.from_bytes(await self._reader.readexactly(4), "big")
        found: dict[str, Any] = json.loads(await self._reader.readexactly(size))
        return found

    def close(self) -> None:
        self._writer.close()


async def http_get(broker_id: int, path: str) -> tuple[int, Any]:
    """The status and the JSON body of a GET."""
    reader, writer = await asyncio.open_connection(f"node-{broker_id}", PORTS["http"])
    writer.write(f"GET {path} HTTP/1.1\r\nHost: node-{broker_id}\r\nConnection: close\r\n\r\n".encode())
    raw = await reader.read()
    writer.close()
    head, _, body = raw.partition(b"\r\n\r\n")
    return int(head.split()[1]), json.loads(body)


def behind_doors(
    play: Callable[[DoorNodes], Coroutine[Any, Any, None]], brokers: int = 3, seed: int = 1, **settings: Any
) -> None:
    """Run one scene on a fresh cluster with the brokers 1 to n."""

    async def main(loop: SimLoop) -> None:
        nodes = DoorNodes(loop, ModelStore(), settings)
        await nodes.start(*range(1, brokers + 1))
        await play(nodes)
        await nodes.stop(*nodes.brokers)

    run(seed, main)
