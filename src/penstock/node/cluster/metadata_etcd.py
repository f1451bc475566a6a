"""The metadata log of several machines: in etcd, one key per append and one `head` key, laid out by etcd_layout.py.

An append is a transaction that compares `head`, so one of several writers at an index succeeds. (Comparing that the
next key is absent would not do: compaction removes old keys, and a stale broker could write one again.) Followers watch
the keys; indexes are dense, so they detect a gap themselves and list again. A call whose response is lost is repeated
at another member; if an attempt may have succeeded, what is stored at the index decides.

The cluster id, the highest index seen and the digest of the history are checked with every response: a store that was
restored from an old backup, or replaced, is refused with TornSegment.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from typing import NamedTuple

from penstock.core.cluster_id import make_cluster_id
from penstock.core.errors import MetadataUnavailable, TimedOut, TooLarge, TornSegment, WrongCluster
from penstock.core.limits import METADATA_APPEND_BYTES_MAX
from penstock.core.machines.catalog.events import Event, compact_events
from penstock.core.records.batch import check
from penstock.node.cluster.etcd_batches import EtcdBatches
from penstock.node.cluster.etcd_layout import (
    START,
    Keys,
    LogPosition,
    Stored,
    decode_head,
    decode_stored,
    encode_head,
)
from penstock.node.cluster.etcd_sessions import EtcdSessions
from penstock.node.cluster.event_batch import open_events, seal_events
from penstock.node.cluster.metadata_log import (
    SESSION_TTL_S,
    BrokerSession,
    Conflict,
    Entry,
    LiveSession,
    lost_history,
    replaced_log,
)
from penstock.node.etcd.client import CompactedAway, EtcdClient
from penstock.node.etcd.watch_stream import WATCH_IDLE_S_MAX, WATCH_PAUSE_S
from penstock.node.runtime.runtime import Runtime
from penstock.wire.etcd.messages import KeyValue, Range, changed_at, delete, get, is_absent, put, value_is

PAGE_ENTRIES = 200
"""Entries read with one request."""
SNAPSHOT_ENTRIES = 1_000
"""`compact` writes a snapshot after this many appends."""
REPEATS_MAX = 5
"""How often a read is begun again because compaction overtook it, or an append because its chunks were removed."""

logger = logging.getLogger("penstock.metadata")


class _Reading(NamedTuple):
    """What a read returned, and where it ended."""

    entries: list[Entry]
    end: LogPosition
    revision: int
    snapshot: KeyValue | None
    stored: list[Stored]
    """The values behind the entries."""


class MetadataEtcd:
    """MetadataLog in etcd. `open` first; `close` at the end."""

    is_shared = True

    def __init__(
        self,
        client: EtcdClient,
        runtime: Runtime,
        *,
        cluster_id: str = "",
        seen_index: int = 0,
        session_ttl_s: int = SESSION_TTL_S,
        snapshot_entries: int = SNAPSHOT_ENTRIES,
    ) -> None:
        """`cluster_id` and `seen_index` are what this broker has stored; empty and 0 for a new one."""
        self._client = client
        self._runtime = runtime
        self._keys = Keys(client.target.prefix)
        self._batches = EtcdBatches(client, self._keys, runtime.rng)
        self._sessions = EtcdSessions(client, self._keys, session_ttl_s)
        self.cluster_id = cluster_id
        self.seen_index = seen_index
        """The highest index that etcd has confirmed to this broker."""
        self._snapshot_entries = snapshot_entries
        self._last = START
        """The latest position whose digest is known."""

    async def open(self) -> None:
        """Check that this is the broker's cluster; found one if etcd has none and this broker has seen none.

        Raises WrongCluster for another cluster, TornSegment for one that lost its history.
        """
        operations = [get(self._keys.cluster), get(self._keys.head)]
        if self.seen_index:
            txn = await self._client.read(*operations)
        else:
            cluster_id = self.cluster_id or make_cluster_id(self._runtime.rng)
            founding = [
                put(self._keys.cluster, cluster_id.encode()),
                put(self._keys.head, encode_head(START)),
            ]
            txn = (
                await self._client.txn(
                    [is_absent(self._keys.cluster), is_absent(self._keys.head)], founding, operations
                )
            ).txn
            if txn.is_taken:
                self.cluster_id = cluster_id
                return
        found = txn.ranges[0].first
        if not self.cluster_id and found is not None:
            self.cluster_id = found.value.decode(errors="replace")
        self._head(txn.ranges, self.seen_index)

    async def close(self) -> None:
        """End this broker's sessions and close all connections."""
        await self._sessions.close()
        self._client.close()

    # -- events

    async def append(self, index: int, events: Sequence[Event]) -> int | Conflict:
        assert events, "an append has at least one event"
        batch = bytes(await self._runtime.slices.run(seal_events(events, self._runtime.clock.now_ms())))
        if len(batch) > METADATA_APPEND_BYTES_MAX:
            raise TooLarge(
                f"a change of the metadata has {len(batch)} bytes, at most {METADATA_APPEND_BYTES_MAX} are allowed:"
                " split it, for example create fewer topics at a time"
            )
        for _ in range(REPEATS_MAX):
            position = await self._position_at(index)
            if isinstance(position, Conflict):
                return position
            outcome = await self._append(position, batch, len(events))
            if outcome is not None:
                return outcome
        raise MetadataUnavailable(
            "the chunks of a large change were removed while it was written; nothing was changed"
        )

    async def _append(self, position: LogPosition, batch: bytes, count: int) -> int | Conflict | None:
        """None if the chunks of the batch were taken for abandoned ones: stage them again."""
        keys, seen_index, end = self._keys, self.seen_index, position.after(batch, count)
        staged = await self._batches.stage(position, batch)
        reply = await self._client.txn(
            [
                value_is(keys.cluster, self.cluster_id.encode()),
                value_is(keys.head, encode_head(position)),
                *staged.comparisons,
            ],
            [put(keys.entry(position.index), staged.value), put(keys.head, encode_head(end))],
            [get(keys.cluster), get(keys.head), get(keys.entry(position.index))],
        )
        if reply.txn.is_taken:
            self._saw(end)
            return end.index
        head = self._head(reply.txn.ranges, seen_index)
        if head.index < position.index:
            raise lost_history(position.index, head.index)
        if head.index == position.index:
            if head != position:
                raise replaced_log(position.index)
            return None
        stored = reply.txn.ranges[2].first
        if reply.is_repeated:
            if stored is None:
                raise TimedOut(
                    f"etcd did not confirm the change at index {position.index}, and a snapshot replaced what is stored"
                    " there: the outcome is unknown"
                )
            if stored.value == staged.value:
                self._saw(end)
                return end.index
        return Conflict(head.index)

    async def _position_at(self, index: int) -> LogPosition | Conflict:
        """The position with this index if the log ends there, as far as this broker knows."""
        if self._last.index == index:
            return self._last
        head = await self._read_head()
        if head.index < index:
            raise lost_history(index, head.index)
        if head.index > index:
            return Conflict(head.index)
        return head

    async def _read_head(self) -> LogPosition:
        seen_index = self.seen_index
        txn = await self._client.read(get(self._keys.cluster), get(self._keys.head))
        return self._head(txn.ranges, seen_index)

    async def read(self, from_index: int) -> Sequence[Entry]:
        return (await self._read(from_index)).entries

    async def _read(self, from_index: int) -> _Reading:
        for _ in range(REPEATS_MAX):
            reading = await self._read_once(from_index)
            if not isinstance(reading, CompactedAway):
                self._saw(reading.end)
                return reading
        raise MetadataUnavailable("etcd compacts its history faster than the metadata log can be read; retry")

    async def _read_once(self, from_index: int) -> _Reading | CompactedAway:
        keys, known, seen_index = self._keys, self._last, self.seen_index
        page = get(keys.entry(from_index), keys.log_end, limit=PAGE_ENTRIES)
        txn = await self._client.read(get(keys.cluster), get(keys.head), get(keys.snapshot), page)
        head = self._head(txn.ranges, seen_index)
        if head.index < from_index:
            raise lost_history(from_index, head.index)
        reading = _Reading([], head, txn.revision, txn.ranges[2].first, [])
        position = known if known.index == from_index else START if not from_index else None
        first: Range | None = txn.ranges[3]
        stored = None
        if reading.snapshot is not None:
            stored = decode_stored(keys.snapshot, reading.snapshot.value)
            reading.stored.append(stored)
        if stored is not None and from_index < stored.position.index:
            events = await self._load(stored, txn.revision)
            if isinstance(events, CompactedAway):
                return events
            reading.entries.append(Entry(stored.position.index, events, is_snapshot=True))
            position, first = stored.position, None
        outcome = await self._read_entries(reading, from_index, position, first)
        return reading if outcome is None else outcome

    async def _read_entries(
        self, reading: _Reading, from_index: int, position: LogPosition | None, page: Range | None
    ) -> CompactedAway | None:
        """Add the entries from a position on, up to the head, as they were at the revision of the reading.

        A position of None is one that this broker has not seen itself; it has the index `from_index`.
        """
        index = from_index if position is None else position.index
        while index < reading.end.index:
            if page is None:
                key = self._keys.entry(index)
                found = await self._client.range(
                    key, self._keys.log_end, limit=PAGE_ENTRIES, revision=reading.revision
                )
                if isinstance(found, CompactedAway):
                    return found
                page = found
            if not page.kvs:
                raise TornSegment(f"events are missing from the metadata log in etcd behind index {index}")
            for kv in page.kvs:
                stored = decode_stored(kv.key, kv.value)
                if stored.position.index != index or position not in (None, stored.position):
                    raise replaced_log(index)
                opened = await self._open(stored, reading.revision)
                if isinstance(opened, CompactedAway):
                    return opened
                position, entry = opened
                index = position.index
                reading.entries.append(entry)
                reading.stored.append(stored)
            page = None
        if position not in (None, reading.end):
            raise replaced_log(index)
        return None

    async def _open(self, stored: Stored, revision: int) -> tuple[LogPosition, Entry] | CompactedAway:
        """The entry behind a value, and the position after it."""
        batch = await self._batches.load(stored, revision)
        if isinstance(batch, CompactedAway):
            return batch
        events = await self._runtime.slices.run(open_events(batch, check(batch)))
        end = stored.position.after(batch, len(events))
        return end, Entry(end.index, events)

    async def _load(self, stored: Stored, revision: int) -> tuple[Event, ...] | CompactedAway:
        """The events of a snapshot; none are an empty batch."""
        batch = await self._batches.load(stored, revision)
        if isinstance(batch, CompactedAway):
            return batch
        return await self._runtime.slices.run(open_events(batch, check(batch))) if batch else ()

    async def follow(self, from_index: int) -> AsyncIterator[Entry]:
        index = from_index
        while True:
            reading = await self._read(index)
            for entry in reading.entries:
                yield entry
            index = reading.end.index
            async with aclosing(self._watch(reading.end, reading.revision + 1)) as entries:
                async for entry in entries:
                    yield entry
                    index = entry.index

    async def _watch(self, position: LogPosition, revision: int) -> AsyncGenerator[Entry, None]:
        """Entries as they are appended. Ends when the log must be read again: a gap, compaction, a lost watch."""
        keys = self._keys
        stream = await self._client.watch(keys.log_start, keys.log_end, revision, hides_removals=True)
        try:
            while True:
                message = await stream.next(WATCH_IDLE_S_MAX)
                if message is None:
                    if await self._read_head() == position:
                        continue
                    self._client.leave(stream.address)
                    return
                if message.cancel_reason is not None:
                    if not message.compact_revision:
                        logger.info(
                            "the watch on the metadata log ended, starting another: %s", message.cancel_reason
                        )
                        await asyncio.sleep(WATCH_PAUSE_S)
                    return
                for change in message.changes:
                    stored = decode_stored(change.kv.key, change.kv.value)
                    if stored.position.index != position.index:
                        return
                    if stored.position != position:
                        raise replaced_log(position.index)
                    opened = await self._open(stored, change.kv.mod_revision)
                    if isinstance(opened, CompactedAway):
                        return
                    position, entry = opened
                    self._saw(position)
                    yield entry
        finally:
            stream.close()

    # -- checks

    def _saw(self, position: LogPosition) -> None:
        if position.index >= self.seen_index:
            self.seen_index = position.index
            self._last = position

    def _head(self, ranges: Sequence[Range], seen_index: int) -> LogPosition:
        """Check cluster id and head, the first two results of a transaction. `seen_index`: that before the request."""
        where = f"etcd at {self._client.target} (prefix {self._client.target.prefix}/)"
        found, head = ranges[0].first, ranges[1].first
        if found is None or head is None:
            raise TornSegment(
                f"{where} has no metadata, but this broker has seen index {seen_index} of cluster {self.cluster_id}:"
                " etcd was emptied or replaced. Restore its newest snapshot, or check the metadata URL"
            )
        cluster_id = found.value.decode(errors="replace")
        if cluster_id != self.cluster_id:
            raise WrongCluster(
                f"{where} holds cluster {cluster_id}, but this broker belongs to cluster {self.cluster_id}: check the"
                " metadata URL and the data directory"
            )
        position = decode_head(head.value)
        if position.index < seen_index:
            raise lost_history(seen_index, position.index)
        return position

    # -- sessions

    async def session(self, name: str, holder: int) -> BrokerSession | Conflict:
        return await self._sessions.open(name, holder) or Conflict(self.seen_index)

    def follow_sessions(self) -> AsyncIterator[tuple[LiveSession, ...]]:
        return self._sessions.follow()

    async def end_session(self, live: LiveSession) -> None:
        await self._sessions.end(live)

    # -- upkeep

    async def compact(self) -> None:
        """Replace old entries by a snapshot, once there are enough of them.

        Any broker may do this at any time; of several, one succeeds. Readers and followers are not disturbed.
        """
        stored = await self._client.read(get(self._keys.log_start, self._keys.log_end, limit=1))
        if stored.ranges[0].total < self._snapshot_entries:
            return
        reading = await self._read(0)
        before = 0 if reading.snapshot is None else reading.snapshot.mod_revision
        is_unchanged = [
            value_is(self._keys.head, encode_head(reading.end)),
            changed_at(self._keys.snapshot, before),
        ]
        await self._batches.remove_abandoned(reading.stored, is_unchanged)
        if await self._write_snapshot(reading, before):
            await self._client.txn([], [delete(self._keys.log_start, self._keys.entry(reading.end.index))])
            await self._batches.remove(reading.stored)

    async def _write_snapshot(self, reading: _Reading, before: int) -> bool:
        """Replace the snapshot of revision `before`; false if another broker did so meanwhile."""
        events = compact_events(event for entry in reading.entries for event in entry.events)
        now_ms = self._runtime.clock.now_ms()
        batch = bytes(await self._runtime.slices.run(seal_events(events, now_ms))) if events else b""
        staged = await self._batches.stage(reading.end, batch)
        reply = await self._client.txn(
            [
                value_is(self._keys.cluster, self.cluster_id.encode()),
                changed_at(self._keys.snapshot, before),
                *staged.comparisons,
            ],
            [put(self._keys.snapshot, staged.value)],
            [get(self._keys.snapshot)],
        )
        if not reply.txn.is_taken:
            found = reply.txn.ranges[0].first
            if not reply.is_repeated or found is None or found.value != staged.value:
                return False
        logger.info(
            "metadata snapshot written to etcd",
            extra={"index": reading.end.index, "events": len(events), "bytes": len(batch)},
        )
        return True
