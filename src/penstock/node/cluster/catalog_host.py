"""Hosts the catalog: decides on the state at an index, appends there, applies. Independent of the log's storage.

    decide on the state at N ──▶ append at N ──▶ apply
            ▲                         │ Conflict
            └── apply new entries ◀───┘
Changes that wait for their turn are decided one after the other on a draft and become one append: one flush of the
disk, or one round trip to a store, serves all of them.

Events of other brokers are applied in log order as they arrive. An event is applied only once it is durable, so every
topic that clients see survives a crash. Recovery is replay.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from penstock.core.errors import (
    BrokerError,
    NotLeader,
    Offline,
    TimedOut,
    TornSegment,
)
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event, TopicRemoved
from penstock.node.cluster.metadata_log import (
    Conflict,
    Entry,
    MetadataLog,
    lost_history,
)
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.slices import Pace, Sliced, chunks
from penstock.node.runtime.tasks import Tasks

logger = logging.getLogger("penstock.metadata")

APPLY_UNITS = 2
"""Cost of applying one event during replay, see SLICE_UNITS."""
TIMEOUTS_MAX = 3
"""After this many appends without a reply the caller gets TimedOut: the outcome is unknown."""
RETRY_S = 1.0
"""Delay before retrying to follow the log."""

CHANGES_PER_APPEND_MAX = 100
"""Changes that one append takes: bounds how long the first of them waits for the decisions of the others."""

Decide = Callable[[Catalog], Sequence[Event] | Sliced[Sequence[Event]]]


class _Change:
    """One caller's change and, once it is settled, its outcome."""

    __slots__ = ("decide", "error", "is_settled")

    def __init__(self, decide: Decide) -> None:
        self.decide = decide
        self.is_settled = False
        self.error: BrokerError | None = None

    def settle(self, error: BrokerError | None) -> None:
        self.is_settled, self.error = True, error


class _Decided(NamedTuple):
    """What a batch of changes comes to on one state: all events, and the error of each change that was rejected."""

    events: tuple[Event, ...]
    errors: list[BrokerError | None]


class CatalogHost:
    """The catalog of one broker and its index in the log. `apply` applies events to the catalog and to what depends on
    it."""

    def __init__(
        self,
        log: MetadataLog,
        catalog: Catalog,
        runtime: Runtime,
        apply: Callable[[Sequence[Event]], Sliced[None]],
    ) -> None:
        self._log = log
        self._catalog = catalog
        self._runtime = runtime
        self._apply = apply
        self.index = 0
        """The catalog reflects all events before this index."""
        self._turn = asyncio.Lock()
        self._failure: BrokerError | None = None
        self.failed = asyncio.Event()
        """Set together with the failure."""
        self._is_stopping = False
        self._following = Tasks()
        self._changes = Tasks()
        self._waiting: deque[_Change] = deque()

    @property
    def is_online(self) -> bool:
        """Whether the catalog can be changed."""
        return self._failure is None

    @property
    def failure(self) -> BrokerError | None:
        """Why the catalog cannot be changed until a restart."""
        return self._failure

    # -- lifecycle

    async def recover(self, seen_index: int) -> set[bytes]:
        """Replay the log to its end; returns the ids of removed topics.

        `seen_index`: the index that this broker had reached before it stopped. A log that ends earlier is rejected.
        """
        removed, pace = set(), Pace()
        for entry in await self._log.read(0):
            for events in chunks(entry.events):
                for event in events:
                    self._catalog.apply(event)
                    if isinstance(event, TopicRemoved):
                        removed.add(event.id)
                await pace.spend(APPLY_UNITS * len(events))
            self.index = entry.index
        if self.index < seen_index:
            raise lost_history(seen_index, self.index)
        return removed

    def start(self) -> None:
        """Follow what other brokers append."""
        self._following.spawn(self._follow(), lambda defect: self._fail(Offline(f"defect: {defect!r}")))

    async def stop(self) -> None:
        """Finish the change in progress and accept no more."""
        self._is_stopping = True
        await self._following.stop()
        async with self._turn:
            return

    def _fail(self, error: BrokerError) -> None:
        if self._failure is None:
            self._failure = error
            self.failed.set()
            logger.critical(
                "metadata log is offline; topics and settings cannot be changed until a restart: %s", error
            )

    # -- changes

    async def change(self, decide: Decide) -> None:
        """Decide on the current state; the events are durable before they are applied.

        Deciding and applying may take several slices. A change runs to completion even if its caller is cancelled;
        otherwise the log could contain events that the catalog never applied.
        """
        await self._changes.run_to_completion(self._change(_Change(decide)))

    async def _change(self, change: _Change) -> None:
        self._waiting.append(change)
        async with self._turn:
            while not change.is_settled:
                await self._commit(self._take_batch(change))
        if change.error is not None:
            raise change.error

    def _take_batch(self, change: _Change) -> list[_Change]:
        """The changes that have waited longest. `change` alone if a defect ended the batch that it was in."""
        if change not in self._waiting:
            return [change]
        return [self._waiting.popleft() for _ in range(min(len(self._waiting), CHANGES_PER_APPEND_MAX))]

    async def _commit(self, batch: list[_Change]) -> None:
        """Settle all changes of a batch, with one append. If that fails, it fails for all: what one of them was told
        may rest on the events of another."""
        try:
            errors = await self._append_until_decided(batch)
        except BrokerError as error:
            errors = [error] * len(batch)
        for change, outcome in zip(batch, errors, strict=True):
            change.settle(outcome)

    async def _append_until_decided(self, batch: list[_Change]) -> list[BrokerError | None]:
        unanswered: list[_Decided] = []
        try:
            return await self._append_repeatedly(batch, unanswered)
        except BrokerError as error:
            if not unanswered or isinstance(error, TimedOut):
                raise
            raise TimedOut(f"the outcome of the change is unknown: {error}") from error

    async def _append_repeatedly(
        self, batch: list[_Change], unanswered: list[_Decided]
    ) -> list[BrokerError | None]:
        """`unanswered` are the appends that may still take effect, also if this raises."""
        while True:
            decided = await self._decide(batch)
            if not decided.events:
                return decided.errors
            outcome = await self._append(decided, unanswered)
            if not isinstance(outcome, Conflict):
                await self._take(Entry(outcome, decided.events))
                return decided.errors
            ours = await self._catch_up(unanswered)
            if ours is not None:
                return ours.errors

    async def _decide(self, batch: list[_Change]) -> _Decided:
        if self._failure is not None:
            raise Offline(f"the metadata log is offline: {self._failure}")
        if self._is_stopping:
            raise NotLeader("the broker is stopping")
        state = self._catalog if len(batch) == 1 else self._catalog.draft()
        decided = _Decided((), [])
        for change in batch:
            events: Sequence[Event] = ()
            error: BrokerError | None = None
            try:
                found = change.decide(state)
                events = await self._runtime.slices.run(found) if isinstance(found, Generator) else found
            except BrokerError as rejected:
                error = rejected
            if state is not self._catalog:
                for event in events:
                    state.apply(event)
            decided = _Decided((*decided.events, *events), [*decided.errors, error])
        return decided

    async def _append(self, decided: _Decided, unanswered: list[_Decided]) -> int | Conflict:
        """Treats an append without a reply as a conflict: reading the log shows whether it took effect."""
        try:
            return await self._log.append(self.index, decided.events)
        except TimedOut:
            unanswered.append(decided)
            if len(unanswered) == TIMEOUTS_MAX:
                raise
            return Conflict(self.index)
        except BrokerError as error:
            if not error.retriable:
                self._fail(error)
            raise

    async def _catch_up(self, unanswered: list[_Decided]) -> _Decided | None:
        """Apply what was appended meanwhile. Returns our append if its reply was lost and the first entry is it.

        Equal events at the same index have the same effect, so entries need no author. Once the log has grown past
        that index, an append still in flight for it can no longer take effect.
        """
        ours: _Decided | None = None
        for entry in await self._log.read(self.index):
            is_unknown = bool(unanswered) and entry.is_snapshot
            ours = ours or next((one for one in unanswered if one.events == entry.events), None)
            unanswered.clear()
            await self._take(entry)
            if is_unknown:
                raise TimedOut(
                    "the outcome of the change is unknown: check the current state before retrying"
                )
        return ours

    # -- apply

    async def _follow(self) -> None:
        """Apply what other brokers append. Own appends are applied by `change` before it returns."""
        while self._failure is None:
            try:
                async for entry in self._log.follow(self.index):
                    async with self._turn:
                        if entry.index > self.index:
                            await self._take(entry)
            except BrokerError as error:
                if not error.retriable:
                    self._fail(error)
                    return
                logger.warning("cannot follow the metadata log; retrying in %.0f s: %s", RETRY_S, error)
            await asyncio.sleep(RETRY_S)

    async def _take(self, entry: Entry) -> None:
        events: Sequence[Event] = entry.events
        if entry.is_snapshot:
            events = self._catalog.decide_catch_up(events)
        elif entry.index != self.index + len(events):
            gap = TornSegment(
                f"events are missing from the metadata log between {self.index} and {entry.index}"
            )
            self._fail(gap)
            raise gap
        await self._runtime.slices.run(self._apply(events))
        self.index = entry.index
