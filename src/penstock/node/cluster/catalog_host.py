"""The host of the catalog: decides on the state at an index, appends there, applies. Knows no ground.

    decide on the state at N ──▶ append at N ──▶ apply
            ▲                         │ Conflict
            └──── apply what came ◀───┘
Events of other brokers are applied as they come, in the order of the log. An event takes effect only when it is
durable, so a topic that clients can see is a topic that survives. Recovery is replay.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator, Sequence

from penstock.core.errors import BrokerError, Fenced, NotLeader, Offline, TimedOut, TornSegment
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event, TopicRemoved
from penstock.node.cluster.metadata_log import BrokerSession, Conflict, Entry, MetadataLog, lost_history
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.slices import Pace, Sliced, chunks
from penstock.node.runtime.tasks import Tasks

logger = logging.getLogger("penstock.metadata")

APPLY_UNITS = 2
"""What it costs to apply one event while the log is replayed, see SLICE_UNITS."""
TIMEOUTS_MAX = 3
"""After so many appends without an answer the caller is told that the outcome is unknown."""
RETRY_S = 1.0
"""When the log cannot be followed, it is tried again this much later."""

Decide = Callable[[Catalog], Sequence[Event] | Sliced[Sequence[Event]]]


class CatalogHost:
    """The catalog of one broker and its place in the log. `apply` makes events happen, to the catalog and beyond."""

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
        """The state of the catalog is that of all events before it."""
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

    # -- life

    async def recover(self, seen_index: int) -> set[bytes]:
        """Bring the catalog to where the log ends; returns the ids of topics that were removed.

        `seen_index`: what this broker has seen before it stopped. A log that ends earlier is refused.
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
        """Show that this broker is alive, and follow what others append."""
        session = await self._log.session(broker_id)
        if isinstance(session, Conflict):
            raise Fenced(f"another process is running as broker {broker_id}")
        self._session = session
        self._following.spawn(self._follow())

    async def stop(self) -> None:
        """Let a change that is under way end, and take no more."""
        self._is_stopping = True
        await self._following.stop()
        async with self._turn:
            if self._session is not None:
                self._session.end()

    def _fail(self, error: BrokerError) -> None:
        if self._failure is None:
            self._failure = error
            logger.critical("metadata log is offline; nothing can be created or changed: %s", error)

    # -- changing

    async def change(self, decide: Decide) -> None:
        """Decide on the present state and make the outcome durable before it takes effect.

        Both may take slices: nobody else decides meanwhile. A change that was begun ends even if its caller is
        cancelled; otherwise the log could hold events that the catalog never saw.
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
        """An append without an answer is taken for a conflict: the log tells what became of it."""
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
        """Apply what was appended meanwhile. True if the first of it is an append of ours whose answer was lost.

        Equal events at the same index have the same effect, whoever appended them, so they need no author. Once the
        index has moved on, an append that is still on its way there can no longer take effect.
        """
        is_ours = False
        for entry in await self._log.read(self.index):
            is_unknown = bool(unanswered) and entry.is_snapshot
            is_ours = is_ours or entry.events in unanswered
            unanswered.clear()
            await self._take(entry)
            if is_unknown:
                raise TimedOut(
                    "whether the change took effect cannot be told any more: look before you try again"
                )
        return is_ours

    # -- applying

    async def _follow(self) -> None:
        """Apply what other brokers append; what this one appends is applied by `change`, before it is answered."""
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
