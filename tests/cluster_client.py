"""A client at one broker of a simulated cluster: publishes and reads single records on that broker's machine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from cluster_nodes import ClusterNodes, until
from penstock.core.errors import BrokerError
from penstock.core.model import NewRecord
from penstock.core.records.build import build_batch, open_batches
from penstock.core.session import Session
from penstock.node.replicas.partition import Partition
from penstock.node.topic_creation import NewTopic
from penstock.node.waist.publisher import Published
from penstock.node.waist.reader import Run, Wanted

SESSION = Session("test")
TIME_MS = 1_000
Outcome = Published | BrokerError


class ClusterClient:
    """Remembers what it was told. It is its own connection: it counts holds, and can leave."""

    def __init__(self, nodes: ClusterNodes, broker_id: int) -> None:
        self._nodes = nodes
        self.broker_id = broker_id
        waist = nodes.doors[broker_id].waist
        self.publisher, self.reader = waist.publisher(), waist.reader()
        self.told: dict[bytes, Outcome] = {}
        self._asked: list[bytes] = []
        self.held = 0
        self._on_close: dict[Callable[[], None], None] = {}

    # -- its connection

    def hold(self) -> Callable[[], None]:
        self.held += 1
        return self._release

    def _release(self) -> None:
        self.held -= 1

    def on_close(self, callback: Callable[[], None]) -> None:
        self._on_close[callback] = None

    def not_on_close(self, callback: Callable[[], None]) -> None:
        self._on_close.pop(callback, None)

    def leave(self) -> None:
        for callback in list(self._on_close):
            callback()

    # -- publish

    async def publish(self, topic: str, *values: bytes, **fields: Any) -> None:
        """All in one turn of the loop; `key` may be a function of the value."""

        async def send() -> None:
            for value in values:
                self._publish(topic, value, **fields)

        await self._nodes.run_on(self.broker_id, send())

    def _publish(self, topic: str, value: bytes, key: Any = None, partition: int | None = None) -> None:
        def settled(outcome: Outcome) -> None:
            assert value not in self.told, "told twice"
            self.told[value] = outcome

        self._asked.append(value)
        record = NewRecord(key(value) if callable(key) else key, value)
        self.publisher.publish(SESSION, topic, record, settled, partition, self.hold)

    async def all(self) -> list[Outcome]:
        """What it was told about everything so far, in the order in which it asked."""
        await until(lambda: len(self.told) == len(self._asked))
        return [self.told[value] for value in self._asked]

    # -- read

    async def start_read(self, wanted: Wanted) -> asyncio.Future[Run | BrokerError]:
        """A read that may wait."""
        answer: asyncio.Future[Run | BrokerError] = asyncio.get_running_loop().create_future()

        async def begin() -> None:
            self.reader.read(SESSION, self, wanted, answer.set_result)

        await self._nodes.run_on(self.broker_id, begin())
        return answer

    async def read(self, wanted: Wanted) -> Run | BrokerError:
        return await (await self.start_read(wanted))

    async def run(self, work: Any) -> Any:
        """Await something on the broker's machine."""
        return await self._nodes.run_on(self.broker_id, work)


def values(outcome: Run | BrokerError) -> list[bytes | None]:
    """What was read; an error is raised."""
    if isinstance(outcome, BrokerError):
        raise outcome
    return [record.value for record in outcome.records]


def stored(nodes: ClusterNodes, topic: str, index: int = 0) -> list[bytes]:
    """The values in a partition, at its leader."""
    run = nodes.leader(topic, index).partition(topic, index).read(0, 1 << 26)
    return [] if run is None else [one.value or b"" for one in open_batches(run.read())]


async def make_topic(nodes: ClusterNodes, name: str, partitions: int = 1, **overrides: str) -> None:
    """A topic that every broker knows; `cleanup_policy="compact"` means cleanup.policy."""
    configs: dict[str, str | None] = {key.replace("_", "."): value for key, value in overrides.items()}
    await nodes.brokers[1].create_topic(NewTopic(name, partitions, configs))
    await nodes.converged()


def leader_id(nodes: ClusterNodes, topic: str, index: int = 0) -> int:
    return nodes.leader(topic, index).identity.node_id


def others(nodes: ClusterNodes, topic: str, index: int = 0) -> list[int]:
    """The brokers that do not lead a partition."""
    return [broker_id for broker_id in sorted(nodes.brokers) if broker_id != leader_id(nodes, topic, index)]


async def put(partition: Partition, *found: bytes, codec: int = 0, time_ms: int = TIME_MS) -> None:
    """One batch of these values at the leader, readable before this returns."""
    records = [NewRecord(None, value) for value in found]
    appended = partition.append(memoryview(build_batch(records, time_ms, codec)))
    await until(lambda: partition.high_watermark >= appended.end_offset)


async def prepared(nodes: ClusterNodes) -> tuple[Partition, list[ClusterClient]]:
    """A partition at its leader, and one client at each of the other brokers."""
    await make_topic(nodes, "orders")
    clients = [ClusterClient(nodes, broker_id) for broker_id in others(nodes, "orders")]
    return nodes.leader("orders").partition("orders", 0), clients
