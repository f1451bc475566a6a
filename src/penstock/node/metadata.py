"""The host of the catalog machine: decide, append the events to its log, flush, apply, answer. Never skips a step.

The metadata log is an ordinary compacted log beside the topics. An event counts only when it is on disk, so a
topic that clients can see is a topic that survives. Recovery is replay.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from penstock.core.errors import BrokerError, Offline
from penstock.core.log.log import Log, LogLimits
from penstock.core.machines.catalog import Catalog
from penstock.core.machines.catalog_events import Event, TopicRemoved, decode, encode
from penstock.core.model import NewRecord
from penstock.core.records.batch import check
from penstock.core.records.whole import build_batch, open_batch
from penstock.node.compacting import compact
from penstock.node.replicas.sync import sync_log
from penstock.node.runtime import Runtime
from penstock.node.slices import Sliced, chunks

DIRECTORY = "metadata"
SEGMENT_BYTES = 4 << 20
INDEX_INTERVAL_BYTES = 4096
EVENTS_PER_BATCH_MAX = 500
"""Events of one change beyond these go into further batches, with others in between. Each event stands for itself."""
_FOREVER_MS = 2**62

LIMITS = LogLimits(SEGMENT_BYTES, _FOREVER_MS, INDEX_INTERVAL_BYTES)

logger = logging.getLogger("penstock.metadata")


class _Compaction(NamedTuple):
    """How the metadata log is compacted: as an ordinary compacted topic would be."""

    dirty_ratio_min: float = 0.5
    compaction_lag_ms_min: int = 0
    compaction_lag_ms_max: int = _FOREVER_MS
    delete_retention_ms: int = 86_400_000
    segment_bytes: int = SEGMENT_BYTES
    index_interval_bytes: int = INDEX_INTERVAL_BYTES


class Metadata:
    """The catalog and its log."""

    def __init__(self, log: Log, catalog: Catalog, runtime: Runtime, metadata_epoch: int) -> None:
        self.log = log
        self.catalog = catalog
        self._runtime = runtime
        self.epoch = metadata_epoch
        """Stamped on every batch of this run."""
        self._turn = asyncio.Lock()
        self._failure: BrokerError | None = None

    @property
    def is_online(self) -> bool:
        return self._failure is None

    async def recover(self) -> set[bytes]:
        """Make durable what is there, then bring the catalog to where the log ends.

        Returns the ids of topics that were removed.
        """
        await self._sync()
        removed = set()
        for segment in self.log.segments:
            for found in segment.walk(0, segment.size, prove=True):
                for record in open_batch(found.raw, found.header):
                    event = decode(record.key, record.value)
                    self.catalog.apply(event)
                    if isinstance(event, TopicRemoved):
                        removed.add(event.id)
        return removed

    async def commit(
        self,
        decide: Callable[[], Sequence[Event] | Sliced[Sequence[Event]]],
        follow: Callable[[Sequence[Event]], Sliced[None]],
    ) -> None:
        """Decide on the present state and make the outcome durable before it takes effect; `follow` applies it.

        Both may take slices: nobody else decides meanwhile.
        """
        async with self._turn:
            if self._failure is not None:
                raise Offline(f"the metadata log is offline: {self._failure}")
            decided = decide()
            events: Sequence[Event]
            if isinstance(decided, Generator):
                events = await self._runtime.slices.run(decided)
            else:
                events = decided
            if not events:
                return
            await self._append(events)
            await self._runtime.slices.run(follow(events))

    def close(self) -> None:
        """Save what makes the next start quick; an append that failed leaves nothing worth saving."""
        try:
            if self.is_online:
                self.log.save_state()
        finally:
            self.log.close()

    async def compact(self) -> None:
        """Let go of what later events say again."""
        await compact(self._runtime, self.log, _Compaction(), self.log.high_watermark, logger.warning)

    async def _sync(self) -> None:
        """What is on disk counts: there is no other copy of it."""
        await sync_log(self._runtime, self.log)
        self.log.advance(self.log.synced_offset)

    async def _append(self, events: Sequence[Event]) -> None:
        now_ms = self._runtime.clock.now_ms()
        try:
            for some in chunks(events, EVENTS_PER_BATCH_MAX):
                batch = build_batch([NewRecord(*encode(event)) for event in some], now_ms)
                self.log.append(batch, check(batch), self.epoch, now_ms)
                await asyncio.sleep(0)
            await self._sync()
        except BrokerError as error:
            if not error.retriable:
                self._failure = error
            raise
