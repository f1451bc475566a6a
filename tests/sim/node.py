"""A whole node on a simulated machine: broker and doors, as the real main assembles them. Never real threads."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager

from in_process_client import KAFKA_ONLY
from penstock.apps.doorways import Doorways
from penstock.node.broker import Broker, start_broker
from penstock.node.connections.addresses import Address
from penstock.node.runtime.runtime import Runtime
from penstock.node.settings import Settings
from sim.machine import Machine

NAME = "broker"
PORT = 9092
SETTINGS = Settings(
    host=NAME,
    port=PORT,
    **KAFKA_ONLY,
    segment_bytes=1_024,
    index_interval_bytes=200,
    retention_check_ms=23,
    compaction_check_ms=31,
    checkpoint_interval_ms=17,
    auto_create_topics=False,
    drain_ms_max=500,
)
"""Everything that a node does now and then, it does here all the time."""

CHECKPOINT_BYTES_MIN = 1_500


class Node:
    """One life of one broker."""

    def __init__(self, broker: Broker, doors: Doorways) -> None:
        self.broker = broker
        self.doors = doors

    async def stop(self) -> None:
        await self.doors.close()
        await self.broker.stop()


async def boot(machine: Machine, settings: Settings = SETTINGS) -> Node:
    """Recover and serve; to be run on the machine."""
    runtime = Runtime(machine.clock, machine.rng, machine.files, machine.workers)
    broker = await start_broker(settings, runtime)
    doors = Doorways(broker)
    await doors.open()
    await doors.serve(Address(NAME, PORT))
    return Node(broker, doors)


@contextmanager
def complaints() -> Iterator[list[str]]:
    """Collects what the node logs as an error: none is expected while its disk works."""
    found: list[str] = []

    class Collect(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            found.append(self.format(record))

    handler = Collect(logging.ERROR)
    logger = logging.getLogger("penstock")
    logger.addHandler(handler)
    try:
        yield found
    finally:
        logger.removeHandler(handler)
