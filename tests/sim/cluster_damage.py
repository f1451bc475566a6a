"""Bits that rot in the segments of one broker, and whether they are still there. Others have the same batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from penstock.core.model import PartitionId
from penstock.node.replicas.partition import Partition
from sim.cluster_machines import BrokerMachine
from sim.loop import SimLoop
from sim.platter import Content

COVERED_FROM = 21
"""The checksum of a batch covers it from this byte on."""


class DamagedBatch(NamedTuple):
    """A batch as it is on disk since a bit of it was turned over."""

    partition: PartitionId
    path: str
    position: int
    content: bytes


class Damage:
    """The damaged batches of one run: all of them on one broker, so that there is another copy of each."""

    def __init__(self, loop: SimLoop, machines: dict[int, BrokerMachine]) -> None:
        self._machines = machines
        self._chance = loop.random_for("damage")
        self._batches: list[DamagedBatch] = []
        self.victim = 0
        """The broker that has them; 0: there are none."""

    def strike(self, is_elsewhere: Callable[[PartitionId, int], bool]) -> None:
        """Turn over a bit of a committed batch, of which another broker has a copy; sometimes the broker dies then."""
        able = [
            (machine, held)
            for machine in self._machines.values()
            if machine.broker is not None and self.victim in (0, machine.broker_id)
            for held in machine.broker.partitions()
            if self._is_fit(held) and is_elsewhere(PartitionId(held.topic_id, held.index), machine.broker_id)
        ]
        if not able:
            return
        machine, held = self._chance.choice(able)
        self._flip(machine, held)
        if self._chance.random() < 0.3:
            machine.kill()

    def _is_fit(self, held: Partition) -> bool:
        """Compacted replicas are not compared: their batches need not be the same. Neither is a batch inside of which a
        log starts, because records before it were deleted on request."""
        is_plain = not held.is_internal and not held.config.cleanup_compact and held.config.retention_ms >= 0
        return is_plain and held.failure is None and bool(_batches_of(held))

    def _flip(self, machine: BrokerMachine, held: Partition) -> None:
        path, position, size = self._chance.choice(_batches_of(held))
        at = position + self._chance.randrange(COVERED_FROM, size)
        machine.machine.disk.flip(path, at, self._chance.randrange(8))
        self.victim = machine.broker_id
        content = self._read(path)[position : position + size]
        self._batches.append(DamagedBatch(PartitionId(held.topic_id, held.index), path, position, content))

    def is_left(self, partition: PartitionId) -> bool:
        """Whether a damaged batch of a partition is still where a replica would read it."""
        return any(one.partition == partition for one in self.left())

    def left(self) -> Iterator[DamagedBatch]:
        """The batches that nobody has repaired or deleted so far."""
        for one in self._batches:
            if self._read(one.path)[one.position : one.position + len(one.content)] == one.content:
                yield one

    def _read(self, path: str) -> bytes:
        found = self._machines[self.victim].machine.disk.tree.find(path)
        return bytes(found.cache) if isinstance(found, Content) else b""


def _batches_of(held: Partition) -> list[tuple[str, int, int]]:
    """File, position and size of the committed batches that are followed by another one: nothing tells a bit that
    rots in the very last batch of a log from a write that was torn by a crash."""
    return [
        (segment.file.path, found.position, found.header.size)
        for segment in held.log.segments
        for found in segment.walk(0, segment.size, verify=False)
        if held.start_offset < found.header.next_offset < held.high_watermark
    ]
