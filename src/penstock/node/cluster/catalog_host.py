"""Hosts the catalog: decides on the state at an index, appends there, applies. Independent of the log's storage.

    decide on the state at N ──▶ append at N ──▶ apply
            ▲                         │ Conflict
            └── apply new entries ◀───┘
Events of other brokers are applied in log order as they arrive. An event is applied only once it is durable, so every
topic that clients see survives a crash. Recovery is replay.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Sequence

from penstock.core.errors import (
    BrokerError,
    Fenced,
    MetadataUnavailable,
    NotLeader,
    Offline,
    TimedOut,
    TornSegment,
)
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event, TopicRemoved
from penstock.node.cluster.metadata_log import (
    BrokerSession,
    Conflict,
    Entry,
    MetadataLog,
    broker_session_name,
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

Decide = Callable[[Catalog], Sequence[Event] | Sliced[Sequence[Event]]]


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
        self._is_stopping = False
        self._session: BrokerSession | None = None
        self._following = Tasks()
        self._changes = Tasks()

    @property
    def is_online(self) -> bool:
        """Whether the catalog can be changed."""
        return self._failure is None

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

    async def start(self, broker_id: int) -> None:
        """Register this broker's session and follow what other brokers append."""
        session = await self._log.session(broker_session_name(broker_id), broker_id)
        if isinstance(session, Conflict):
            raise Fenced(f"another process is running as broker {broker_id}")
        self._session = session
        self._following.spawn(self._follow())

    async def stop(self) -> None:
        """Finish the change in progress and accept no more."""
        self._is_stopping = True
        await self._following.stop()
        async with self._turn:
            if self._session is not None:
                self._session.end()

    def _fail(self, error: BrokerError) -> None:
        if self._failure is None:
            self._failure = error
            logger.critical(
                "metadata log is offline; topics and settings cannot be changed until a restart: %s", error
            )

    # -- changes

    async def change(self, decide: Decide) -> None:
        """Decide on the current state; the events are durable before they are applied.

        Deciding and applying may take several slices; one change runs at a time. A change runs to completion even if
        its caller is cancelled; otherwise the log could contain events that the catalog never applied.
        """
        await self._changes.run_to_completion(self._change(decide))

    async def _change(self, decide: Decide) -> None:
        async with self._turn:
            unanswered: list[tuple[Event, ...]] = []
            while True:
                events = await self._decide(decide)
                if not events:
                    return
                outcome = await self._append(events, unanswered)
                if not isinstance(outcome, Conflict):
                    await self._take(Entry(outcome, events))
                    return
                if await self._catch_up(unanswered):
                    return

    async def _decide(self, decide: Decide) -> tuple[Event, ...]:
        if self._failure is not None:
            raise Offline(f"the metadata log is offline: {self._failure}")
        if self._is_stopping:
            raise NotLeader("the broker is stopping")
        decided = decide(self._catalog)
        if isinstance(decided, Generator):
            return tuple(await self._runtime.slices.run(decided))
        return tuple(decided)

    async def _append(self, events: tuple[Event, ...], unanswered: list[tuple[Event, ...]]) -> int | Conflict:
        """Treats an append without a reply as a conflict: reading the log shows whether it took effect."""
        try:
            return await self._log.append(self.index, events)
        except TimedOut:
            unanswered.append(events)
            if len(unanswered) == TIMEOUTS_MAX:
                raise
            return Conflict(self.index)
        except BrokerError as error:
            if not error.retriable:
                self._fail(error)
            raise

    async def _catch_up(self, unanswered: list[tuple[Event, ...]]) -> bool:
        """Apply what was appended meanwhile. True if the first entry is an append of ours whose reply was lost.

        Equal events at the same index have the same effect, so entries need no author. Once the log has grown past
        that index, an append still in flight for it can no longer take effect.
        """
        is_ours = False
        for entry in await self._read_back(is_unknown=bool(unanswered)):
            is_unknown = bool(unanswered) and entry.is_snapshot
            is_ours = is_ours or entry.events in unanswered
            unanswered.clear()
            await self._take(entry)
            if is_unknown:
                raise TimedOut(
                    "the outcome of the change is unknown: check the current state before retrying"
                )
        return is_ours

    async def _read_back(self, *, is_unknown: bool) -> Sequence[Entry]:
        """What was appended meanwhile. If that cannot be read, the outcome of an append without a reply is unknown."""
        try:
            return await self._log.read(self.index)
        except MetadataUnavailable as error:
            if is_unknown:
                raise TimedOut(f"the outcome of the change is unknown: {error}") from error
            raise

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
