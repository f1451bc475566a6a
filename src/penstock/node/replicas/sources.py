"""Partitions as readers of single records see them: what they want, what they get, and the partition itself.

`remote/remote_source` has the same for partitions that other brokers lead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple, Protocol

from penstock.core.limits import FETCH_BYTES_MAX
from penstock.core.model import Isolation, Record
from penstock.core.records.portion import payload_bytes
from penstock.node.replicas.committed_records import end_of, read_records
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.payloads import Opened


class Wanted(NamedTuple):
    """A read request. Time and size are limits; one record always fits."""

    topic: str
    partition: int
    offset: int
    records_max: int = 1
    bytes_max: int = FETCH_BYTES_MAX
    wait_ms: int = 0
    isolation: Isolation = Isolation.READ_COMMITTED


class Run(NamedTuple):
    """The result of a read. The next read starts at `next_offset`; records before `end_offset` are visible."""

    records: list[Record]
    next_offset: int
    start_offset: int
    end_offset: int
    is_opening: bool = False
    """A batch is being decompressed in a worker or fetched from another broker; the reader is called when it can
    continue."""


class Source(Protocol):
    """One partition that a reader follows, wherever it is led."""

    @property
    def index(self) -> int: ...

    @property
    def start_offset(self) -> int:
        """The first offset that is still available, as far as is known here."""

    def read(self, wanted: Wanted, when_opened: Opened) -> Run:
        """Read without waiting. An empty result with `next_offset` before the end means that there is more to scan, or
        that records are being decompressed or fetched; then `when_opened` is called."""

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call back when there may be more to read."""

    def remove_listener(self, listener: Callable[[], None]) -> None: ...


class PartitionSource:
    """A partition of this node."""

    __slots__ = ("_partition", "add_listener", "index", "remove_listener")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.index = partition.index
        self.add_listener = partition.add_listener
        self.remove_listener = partition.remove_listener

    @property
    def start_offset(self) -> int:
        return self._partition.start_offset

    def read(self, wanted: Wanted, when_opened: Opened) -> Run:
        """See `Source.read`."""
        return read_here(self._partition, wanted, when_opened)


def read_here(partition: Partition, wanted: Wanted, when_opened: Opened) -> Run:
    """Read from a partition of this node without waiting."""
    found = read_records(
        partition,
        wanted.offset,
        wanted.isolation,
        when_opened,
        records_max=wanted.records_max,
        bytes_max=wanted.bytes_max,
    )
    partition.traffic.out_bytes += sum(map(payload_bytes, found.records))
    end_offset = end_of(partition, wanted.isolation)
    return Run(found.records, found.next_offset, partition.start_offset, end_offset, found.is_opening)


async def read_waiting(source: Source, wanted: Wanted) -> Run:
    """Read; waits while records are being decompressed or fetched, but not for new ones."""
    while True:
        opened = asyncio.Event()
        run = source.read(wanted, opened.set)
        if run.records or not run.is_opening:
            return run
        wanted = wanted._replace(offset=run.next_offset)
        await opened.wait()
