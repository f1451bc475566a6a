"""A partition that the broker itself writes to and reads from its start: dead letters, and where they are redriven.

`LocalLog` is one that is led here; `remote_log` has one that may be led by another broker.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Protocol

from penstock.core.errors import BrokerError
from penstock.core.model import NewRecord, Record
from penstock.core.records.build import build_batch
from penstock.node.replicas.committed_records import every_committed
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.tasks import resolver

READ_BYTES = 1 << 20

IsWanted = Callable[[], bool]
"""False once nobody wants the record to be written any more."""


class OwnLog(Protocol):
    """One partition. Every call raises BrokerError if it fails."""

    async def append(self, record: NewRecord, is_wanted: IsWanted) -> None:
        """Append a record, once; it is durable after `flush`."""

    async def flush(self) -> None:
        """Wait until everything appended is durable."""

    async def high_watermark(self) -> int: ...

    def records(self, offset: int) -> AsyncIterator[Record]:
        """Every committed record from an offset to the current end."""


class LocalLog:
    """A partition that is led here."""

    def __init__(self, runtime: Runtime, partition: Partition) -> None:
        self._runtime = runtime
        self._partition = partition

    async def append(self, record: NewRecord, is_wanted: IsWanted) -> None:
        """See OwnLog. Does not wait."""
        self._partition.append_own(build_batch([record], self._runtime.clock.now_ms()))

    async def flush(self) -> None:
        """Sync, whatever the durability of the topic."""
        await self._partition.persisted(self._partition.end_offset)

    async def high_watermark(self) -> int:
        return self._partition.high_watermark

    async def records(self, offset: int) -> AsyncIterator[Record]:
        """See OwnLog. Waits for what is appended and not committed: after a start, that is all that recovery found, and
        a letter that is not seen would be written again."""
        committed: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
        self._partition.when_committed(self._partition.end_offset, resolver(committed))
        error = await committed
        if error is not None:
            raise error
        async for record in every_committed(self._partition, offset, READ_BYTES):
            yield record
