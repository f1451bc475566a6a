"""The metadata log of a single broker: an ordinary compacted log in a directory beside the topics.

Each record is one event and each append is one batch, so a batch torn by a crash drops its whole append. The file has
one owner, so sessions live as long as the log accepts appends.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import NamedTuple, TypeVar

from penstock.core.errors import BrokerError, NotLeader, Offline
from penstock.core.log.log import Log, LogLimits
from penstock.core.machines.catalog.events import Event, encode
from penstock.core.records.batch import BatchHeader, Buffer, decode_header
from penstock.node.cluster.event_batch import open_event_records, open_events, seal_events
from penstock.node.cluster.metadata_log import (
    BrokerSession,
    Conflict,
    Entry,
    LiveSession,
    RecordEntry,
    lost_history,
    replaced_log,
)
from penstock.node.cluster.sessions import Sessions
from penstock.node.replicas.compactor import compact
from penstock.node.replicas.sync import sync_log
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.slices import Sliced
from penstock.node.runtime.tasks import Tasks

T = TypeVar("T")

DIRECTORY = "metadata"
SEGMENT_BYTES = 4 << 20
INDEX_INTERVAL_BYTES = 4096
RECENT_ENTRIES = 16
"""The last appends stay in memory, so that followers need not decode them again."""
_FOREVER_MS = 2**62

LIMITS = LogLimits(SEGMENT_BYTES, _FOREVER_MS, INDEX_INTERVAL_BYTES)

logger = logging.getLogger("penstock.metadata")


class _Compaction(NamedTuple):
    """Compaction settings of the metadata log: the defaults of a compacted topic."""

    dirty_ratio_min: float = 0.5
    compaction_lag_ms_min: int = 0
    compaction_lag_ms_max: int = _FOREVER_MS
    delete_retention_ms: int = 86_400_000
    segment_bytes: int = SEGMENT_BYTES
    index_interval_bytes: int = INDEX_INTERVAL_BYTES


class MetadataFile:
    """MetadataLog of a cluster of one broker. Indexes are offsets of its log."""

    is_shared = False

    def __init__(self, log: Log, runtime: Runtime, epoch: int) -> None:
        self._log = log
        self._runtime = runtime
        self.epoch = epoch
        """Stamped into the batches as their leader epoch; no other broker ever leads this log."""
        self._failure: BrokerError | None = None
        self._appending = asyncio.Lock()
        self._appends = Tasks()
        self._files_turn = asyncio.Lock()
        """Held while segments are read in slices, so that compaction cannot replace them, and while compaction
        runs."""
        self._recent: deque[Entry] = deque(maxlen=RECENT_ENTRIES)
        self._followers: list[asyncio.Future[None]] = []
        self._sessions = Sessions()

    @property
    def end_index(self) -> int:
        return self._log.high_watermark

    async def open(self) -> None:
        """Sync what recovery found before anything relies on it."""
        await self._sync()

    def close(self) -> None:
        """Save the log's state, which makes the next start faster; skipped after a failed append."""
        try:
            if self._failure is None:
                self._log.save_state()
        finally:
            self._fail(NotLeader("the broker is stopping"))
            self._log.close()

    def _fail(self, error: BrokerError) -> None:
        self._failure = self._failure or error
        self._wake_followers()
        self._sessions.end_all()

    def _check_online(self) -> None:
        if self._failure is not None:
            raise Offline(f"the metadata log is offline: {self._failure}")

    async def _sync(self) -> None:
        """Sync, then commit: without other replicas, what is on disk is committed."""
        await sync_log(self._runtime, self._log)
        self._log.advance(self._log.synced_offset)

    # -- events

    async def append(self, index: int, events: Sequence[Event]) -> int | Conflict:
        return await self._appends.run_to_completion(self._append(index, tuple(events)))

    async def _append(self, index: int, events: tuple[Event, ...]) -> int | Conflict:
        assert events, "an append has at least one event"
        async with self._appending:
            self._check_online()
            if index > self.end_index:
                raise lost_history(index, self.end_index)
            if index < self.end_index:
                return Conflict(self.end_index)
            now_ms = self._runtime.clock.now_ms()
            batch = await self._runtime.slices.run(seal_events(events, now_ms))
            try:
                self._log.append(batch, decode_header(batch), self.epoch, now_ms)
                await self._sync()
            except BrokerError as error:
                if not error.retriable:
                    self._fail(error)
                raise
            self._recent.append(Entry(self.end_index, events))
            self._wake_followers()
            return self.end_index

    async def read(self, from_index: int) -> Sequence[Entry]:
        recent = self._read_recent(from_index)
        if recent is not None:
            return recent
        async with self._files_turn:
            found = await self._runtime.slices.run(self._read(from_index, open_events))
        return [Entry(*one) for one in found]

    async def read_records(self, from_index: int) -> Sequence[RecordEntry]:
        """The same without decoding events: several brokers that start read the whole log at the same time."""
        recent = self._read_recent(from_index)
        if recent is not None:
            return [RecordEntry(one.index, [encode(event) for event in one.events]) for one in recent]
        async with self._files_turn:
            found = await self._runtime.slices.run(self._read(from_index, open_event_records))
        return [RecordEntry(*one) for one in found]

    def _read_recent(self, from_index: int) -> list[Entry] | None:
        """What memory holds; None if it must be read from the files."""
        if from_index > self.end_index:
            raise lost_history(from_index, self.end_index)
        if from_index == self.end_index:
            return []
        recent = [entry for entry in self._recent if entry.index > from_index]
        if recent and recent[0].index - len(recent[0].events) == from_index:
            return recent
        return None

    def _read(
        self, from_index: int, open_batch: Callable[[Buffer, BatchHeader], Sliced[tuple[T, ...]]]
    ) -> Sliced[list[tuple[int, tuple[T, ...], bool]]]:
        end_index, segments = self.end_index, list(self._log.segments)
        compacted_upto = max((one.next_offset for one in segments if one.is_cleaned), default=0)
        is_snapshot = from_index < compacted_upto
        entries: list[tuple[int, tuple[T, ...], bool]] = []
        for segment in segments:
            if segment.next_offset <= from_index and not is_snapshot:
                continue
            for found in segment.walk(0, segment.size, verify=True):
                first, next_index = found.header.base_offset, found.header.next_offset
                if first >= end_index:
                    break
                if next_index <= from_index and not is_snapshot:
                    continue
                if first < from_index and not is_snapshot:
                    raise replaced_log(from_index)
                entries.append((next_index, (yield from open_batch(found.raw, found.header)), False))
        if is_snapshot:
            return [(end_index, tuple(one for _, some, _ in entries for one in some), True)]
        return entries

    async def follow(self, from_index: int) -> AsyncIterator[Entry]:
        index = from_index
        while True:
            for entry in await self.read(index):
                yield entry
                index = entry.index
            await self.grown_beyond(index)

    async def grown_beyond(self, index: int) -> None:
        """Returns once the log no longer ends at `index`. Raises Offline if it cannot grow any more."""
        while self.end_index == index:
            self._check_online()
            self._followers.append(asyncio.get_running_loop().create_future())
            await self._followers[-1]

    def _wake_followers(self) -> None:
        followers, self._followers = self._followers, []
        for follower in followers:
            if not follower.done():
                follower.set_result(None)

    # -- sessions

    async def session(self, name: str, holder: int) -> BrokerSession | Conflict:
        self._check_online()
        return self._sessions.open(name, holder) or Conflict(self.end_index)

    async def follow_sessions(self) -> AsyncIterator[tuple[LiveSession, ...]]:
        async for live in self._sessions.follow():
            self._check_online()
            yield live

    async def end_session(self, live: LiveSession) -> None:
        self._sessions.end(live)

    # -- upkeep

    async def compact(self) -> None:
        """Drop events that a later event of the same key replaces."""
        async with self._files_turn:
            await compact(self._runtime, self._log, _Compaction(), self.end_index, logger.warning)
