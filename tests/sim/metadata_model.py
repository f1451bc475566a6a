"""The metadata log as a model: a store in memory that several brokers share, with the faults that real ones have.

Faults are planted, each for the next call that it fits: answers that are lost, requests that come late or never,
sessions that expire, compaction while somebody follows, a store that is restored from an older state.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from copy import deepcopy
from enum import Enum

from penstock.core.errors import TimedOut
from penstock.core.machines.catalog.events import Event, compact_events
from penstock.node.cluster.metadata_log import (
    BrokerSession,
    Conflict,
    Entry,
    LiveSession,
    lost_history,
    replaced_log,
)
from penstock.node.cluster.sessions import Sessions


class Fault(Enum):
    """What happens to one append."""

    ANSWER_LOST = "it takes effect, and the broker does not hear of it"
    REQUEST_LOST = "it never takes effect, and the broker does not hear of that"
    REQUEST_LATE = "the broker gives up, and it reaches the store when `deliver_late` says so"


class ModelStore:
    """What the brokers share."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []
        """Those that are not compacted yet."""
        self.snapshot = Entry(0, (), is_snapshot=True)
        self._late: deque[tuple[int, tuple[Event, ...]]] = deque()
        self.sessions = Sessions()
        self.on_take: Callable[[int, tuple[Event, ...]], None] = lambda index, events: None
        """Told of every append that takes effect: its index and its events."""
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def end_index(self) -> int:
        return self.entries[-1].index if self.entries else self.snapshot.index

    def take(self, index: int, events: tuple[Event, ...]) -> int | Conflict:
        """One comparison and one write, at once."""
        if index > self.end_index:
            raise lost_history(index, self.end_index)
        if index < self.end_index:
            return Conflict(self.end_index)
        self.entries.append(Entry(index + len(events), events))
        self.on_take(index, events)
        self._wake()
        return self.end_index

    def read(self, from_index: int) -> list[Entry]:
        if from_index > self.end_index:
            raise lost_history(from_index, self.end_index)
        if from_index < self.snapshot.index:
            return [self.snapshot, *self.entries]
        rest = [entry for entry in self.entries if entry.index > from_index]
        if rest and rest[0].index - len(rest[0].events) != from_index:
            raise replaced_log(from_index)
        return rest

    async def grown_beyond(self, index: int) -> None:
        while self.end_index == index:
            self._waiting.append(asyncio.get_running_loop().create_future())
            await self._waiting[-1]

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)

    # -- faults

    def delay(self, index: int, events: tuple[Event, ...]) -> None:
        self._late.append((index, events))

    def deliver_late(self) -> None:
        """Requests that were on their way arrive; whoever sent them has given up."""
        while self._late:
            self.take(*self._late.popleft())

    def expire(self, name: str) -> None:
        """The store has not heard of the holder of a session for too long."""
        for live in self.sessions.live:
            if live.name == name:
                self.sessions.end(live)

    def compact(self) -> None:
        """Keep the last event of each key, and nothing of what is gone."""
        events = [event for entry in (self.snapshot, *self.entries) for event in entry.events]
        alive = tuple(compact_events(events))
        self.snapshot, self.entries = Entry(self.end_index, alive, is_snapshot=True), []

    def back_up(self) -> tuple[Entry, list[Entry]]:
        return deepcopy((self.snapshot, self.entries))

    def restore(self, backup: tuple[Entry, list[Entry]]) -> None:
        self.snapshot, self.entries = deepcopy(backup)
        self._wake()


class ModelMetadataLog:
    """One broker's access to the store; every call takes a while each way, a turn of the loop at least."""

    is_shared = True

    def __init__(self, store: ModelStore, delay_s: Callable[[], float] = lambda: 0.0) -> None:
        self._store = store
        self._delay_s = delay_s
        self.cluster_id = "model-cluster"
        self.faults: deque[Fault] = deque()
        """What happens to the next appends, one after the other."""

    @property
    def seen_index(self) -> int:
        return self._store.end_index

    async def append(self, index: int, events: Sequence[Event]) -> int | Conflict:
        assert events, "an append has at least one event"
        fault = self.faults.popleft() if self.faults else None
        await asyncio.sleep(self._delay_s())
        if fault is Fault.REQUEST_LATE:
            self._store.delay(index, tuple(events))
        elif fault is not Fault.REQUEST_LOST:
            outcome = self._store.take(index, tuple(events))
            await asyncio.sleep(self._delay_s())
            if fault is None:
                return outcome
        raise TimedOut("the metadata store does not answer")

    async def read(self, from_index: int) -> Sequence[Entry]:
        await asyncio.sleep(self._delay_s())
        entries = self._store.read(from_index)
        await asyncio.sleep(self._delay_s())
        return entries

    async def follow(self, from_index: int) -> AsyncIterator[Entry]:
        index = from_index
        while True:
            for entry in await self.read(index):
                yield entry
                index = entry.index
            await self._store.grown_beyond(index)

    async def session(self, name: str, holder: int) -> BrokerSession | Conflict:
        await asyncio.sleep(self._delay_s())
        return self._store.sessions.open(name, holder) or Conflict(self._store.end_index)

    async def follow_sessions(self) -> AsyncIterator[tuple[LiveSession, ...]]:
        async for live in self._store.sessions.follow():
            await asyncio.sleep(self._delay_s())
            yield live

    async def end_session(self, live: LiveSession) -> None:
        await asyncio.sleep(self._delay_s())
        self._store.sessions.end(live)

    async def compact(self) -> None:
        self._store.compact()

    async def close(self) -> None:
        """Nothing to disconnect."""
