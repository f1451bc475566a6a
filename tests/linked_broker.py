"""A broker process that accepts links: its data directory gets a link key before the first start."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

from penstock.apps.process import loop_factory
from penstock.core.machines.cluster.brokers import decide_link_key
from penstock.core.model import Address
from penstock.node.broker import start_broker
from penstock.node.peers.link_opening import LinkPeer
from penstock.node.peers.links import PeerLinks
from penstock.node.runtime.clock import SystemClock, SystemRng
from penstock.node.runtime.disk import DiskFiles
from penstock.node.runtime.memory import MemoryFiles
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.workers import ThreadWorkers
from penstock.node.settings import Settings
from penstock.testing.broker import Broker

T = TypeVar("T")
KEY = b"k" * 32
MY_ID, PEER_ID = 7, 1
TOPIC = "orders"


def run(work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """On the event loop that brokers run on."""
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(work())


def prepare(data_dir: Path, **settings: Any) -> tuple[str, bytes]:
    """Create a data directory with a link key and a topic; returns the ids of the cluster and of the topic."""

    async def main() -> tuple[str, bytes]:
        workers = ThreadWorkers(asyncio.get_running_loop(), 1)
        runtime = Runtime(SystemClock(), SystemRng(), DiskFiles(data_dir, 100), workers)
        broker = await start_broker(Settings(data_dir=str(data_dir), node_id=PEER_ID, **settings), runtime)
        await broker.change(lambda catalog: decide_link_key(catalog.cluster, KEY))
        await broker.auto_create_topic(TOPIC)
        assert await broker.stop()
        workers.close()
        return broker.identity.cluster_id, broker.catalog.topic(TOPIC).id

    data_dir.mkdir(parents=True, mode=0o700, exist_ok=True)
    return run(main)


def links_to(broker: Broker, cluster_id: str, key: bytes = KEY) -> PeerLinks:
    """Links of a broker that exists only in this process. Needs a running loop."""
    runtime = Runtime(SystemClock(), SystemRng(), MemoryFiles(), ThreadWorkers(asyncio.get_running_loop(), 1))
    peer = LinkPeer(Address(broker.host, broker.port), cluster_id, key)
    return PeerLinks(runtime, MY_ID, lambda broker_id: peer if broker_id == PEER_ID else None)
