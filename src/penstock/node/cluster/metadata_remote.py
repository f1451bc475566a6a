"""The metadata log of a broker whose coordinator is another process on this machine. Stores nothing.

Reconnects by itself and resumes followers where they stopped. An append whose reply is lost is reported as TimedOut and
never sent again. A coordinator that belongs to another cluster, or whose log ends before an index that was seen here,
is not used any more: every call fails until a restart.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from penstock.core.errors import (
    BrokerError,
    MetadataUnavailable,
    NotLeader,
    TimedOut,
    TooLarge,
    TornSegment,
    WrongCluster,
)
from penstock.core.limits import METADATA_APPEND_BYTES_MAX
from penstock.core.machines.catalog.events import Event
from penstock.node.cluster.metadata_entries import decoded_entries, encoded_events
from penstock.node.cluster.metadata_link import CoordinatorAccess, MetadataLink, connect_coordinator
from penstock.node.cluster.metadata_log import BrokerSession, Conflict, Entry, LiveSession, lost_history
from penstock.node.cluster.remote_sessions import OWN_SHARE, RENEWALS_PER_TTL, HeldSessions, RemoteSession
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.tasks import Tasks
from penstock.wire.metadata.frames import (
    Append,
    AppendDone,
    Conflicting,
    EndSession,
    Message,
    OpenSession,
    ReadFrom,
    Renew,
    Renewed,
    SessionOpened,
    SessionsNow,
    WatchSessions,
)

logger = logging.getLogger("penstock.metadata")

CALL_S_MAX = 5.0
"""Default deadline of a call."""
READ_S_MAX = 60.0
"""For the whole log of a large cluster, which all brokers may want at the same time."""
RECONNECT_S_MIN, RECONNECT_S_MAX = 0.05, 1.0
TOKEN_BYTES = 16


class RemoteMetadataLog:
    """MetadataLog over a connection to the coordinator. Needs a running loop."""

    is_shared = True

    def __init__(
        self,
        access: CoordinatorAccess,
        runtime: Runtime,
        *,
        seen_index: int = 0,
        call_s_max: float = CALL_S_MAX,
    ) -> None:
        self._access = access
        self._runtime = runtime
        self._call_s_max = call_s_max
        self.seen_index = seen_index
        self._loop = asyncio.get_running_loop()
        self._link: MetadataLink | None = None
        self._linked = asyncio.Event()
        """Set while there is a link, and once there will be none any more."""
        self._failure: BrokerError | None = None
        self._trouble = "no answer"
        """Why there is no link."""
        self._ttl_s = 0.0
        self._held = HeldSessions()
        self._tasks = Tasks()
        self._farewells = Tasks()
        self.cluster_id = access.cluster_id

    # -- lifecycle

    async def open(self) -> None:
        """Connect. Raises MetadataUnavailable if there is no coordinator, and the reason if it refuses this broker."""
        try:
            async with asyncio.timeout(self._call_s_max):
                await _with_pauses(self._connect)
        except TimeoutError:
            raise self._unreachable() from None
        self._tasks.spawn(self._stay_connected())
        self._tasks.spawn(self._renew_forever())
        self._tasks.spawn(self._watch_own_sessions())

    async def close(self) -> None:
        """End the sessions of this broker and disconnect."""
        self._held.end_all()
        await self._farewells.finish()
        await self._tasks.stop()
        self._fail(NotLeader("the broker is stopping"))

    async def compact(self) -> None:
        """The coordinator compacts the log itself."""

    def _fail(self, error: BrokerError) -> None:
        self._failure = self._failure or error
        self._held.settle_all()
        if self._link is not None:
            self._link.close(str(error))
        self._linked.set()

    # -- the connection

    async def _connect(self) -> bool:
        """One attempt; False if another one may succeed. Raises what no retry will change."""
        try:
            link = await connect_coordinator(self._access, self._runtime.rng)
        except (OSError, EOFError) as error:
            self._trouble = str(error) or type(error).__name__
            return False
        try:
            self._check(link)
        except BrokerError as error:
            link.close(str(error))
            self._fail(error)
            raise
        self._link = link
        self._ttl_s = link.welcome.ttl_ms / 1_000
        self.cluster_id = link.cluster_id
        link.lost.add_done_callback(self._lost)
        self._linked.set()
        return True

    def _lost(self, lost: asyncio.Future[str]) -> None:
        self._link, self._trouble = None, lost.result()
        if self._failure is None:
            self._linked.clear()

    def _check(self, link: MetadataLink) -> None:
        """The coordinator has proven that it knows the secret: what it states is true."""
        if self.cluster_id not in ("", link.cluster_id):
            raise WrongCluster(
                f"{self._access} belongs to cluster {link.cluster_id!r}, this broker to {self.cluster_id!r}"
            )
        if link.welcome.end_index < self.seen_index:
            raise lost_history(self.seen_index, link.welcome.end_index)

    async def _stay_connected(self) -> None:
        while self._failure is None:
            if self._link is not None:
                trouble = await asyncio.shield(self._link.lost)
                logger.warning("lost %s; reconnecting: %s", self._access, trouble)
            await _with_pauses(self._reconnect)

    async def _reconnect(self) -> bool:
        """One attempt with a deadline; True if none must follow."""
        try:
            async with asyncio.timeout(self._call_s_max):
                is_connected = await self._connect()
        except TimeoutError:
            self._trouble = "no answer during the handshake"
            return False
        except BrokerError as error:
            if self._failure is not None:
                logger.critical("%s cannot be used any more: %s", self._access, error)
                return True
            if str(error) != self._trouble:
                self._trouble = str(error)
                logger.error("%s refuses this broker; retrying: %s", self._access, error)
            return False
        if is_connected:
            logger.info("reconnected to %s", self._access)
        return is_connected

    async def _ready_link(self) -> MetadataLink:
        while True:
            await self._linked.wait()
            if self._failure is not None:
                raise self._failure
            if self._link is not None and not self._link.lost.done():
                return self._link
            await asyncio.sleep(0)  # the loss is noticed in the next turn of the loop

    def _unreachable(self) -> MetadataUnavailable:
        return MetadataUnavailable(
            f"{self._access} cannot be reached, nothing was changed: {self._trouble}. Check that it is running"
        )

    def _unknown(self, what: str, error: Exception) -> TimedOut:
        return TimedOut(
            f"{self._access} did not answer, the outcome of {what} is unknown: {error or 'timed out'}"
        )

    async def _call(self, message: Message) -> Message:
        """A call that may be repeated on another connection until the deadline."""
        is_sent = False
        try:
            async with asyncio.timeout(self._call_s_max):
                while True:
                    link = await self._ready_link()
                    is_sent = True
                    try:
                        return await link.call(message)
                    except ConnectionError:
                        continue
        except TimeoutError as error:
            if not is_sent:
                raise self._unreachable() from None
            raise self._unknown(type(message).__name__, error) from None

    # -- events

    async def append(self, index: int, events: Sequence[Event]) -> int | Conflict:
        assert events, "an append has at least one event"
        records = await self._runtime.slices.run(encoded_events(events))
        if len(records) > METADATA_APPEND_BYTES_MAX:
            raise TooLarge(
                f"a change of {len(events)} events needs {len(records)} bytes, the limit is"
                f" {METADATA_APPEND_BYTES_MAX}: divide it into several changes"
            )
        reply = await self._append(Append(index, records))
        if isinstance(reply, AppendDone):
            self.seen_index = max(self.seen_index, reply.end_index)
            return reply.end_index
        assert isinstance(reply, Conflicting)
        return Conflict(reply.end_index)

    async def _append(self, message: Append) -> Message:
        is_sent = False
        try:
            async with asyncio.timeout(self._call_s_max):
                link = await self._ready_link()
                is_sent = True
                return await link.call(message)
        except (TimeoutError, ConnectionError) as error:
            if not is_sent:
                raise self._unreachable() from None
            raise self._unknown(f"the append at index {message.at_index}", error) from None

    async def read(self, from_index: int) -> Sequence[Entry]:
        try:
            async with asyncio.timeout(READ_S_MAX):
                return await self._read(ReadFrom(from_index, False), self._call_s_max)
        except TimeoutError:
            raise self._unreachable() from None

    async def _read(self, message: ReadFrom, link_s_max: float | None = None) -> list[Entry]:
        """Repeated on another connection until it succeeds; `link_s_max`: how long to wait for one. A coordinator
        that hangs is noticed by renewals, which overtake: a long log may take its time."""
        while True:
            async with asyncio.timeout(link_s_max):
                link = await self._ready_link()
            try:
                parts = await link.call_for_entries(message)
            except ConnectionError:
                continue
            entries = await self._runtime.slices.run(decoded_entries(parts))
            self.seen_index = max(self.seen_index, parts[-1].end_index)
            return entries

    async def follow(self, from_index: int) -> AsyncIterator[Entry]:
        index = from_index
        while True:
            for entry in await self._read(ReadFrom(index, True)):
                if not entry.is_snapshot and entry.index != index + len(entry.events):
                    raise TornSegment(f"{self._access} left out events between {index} and {entry.index}")
                yield entry
                index = entry.index

    # -- sessions

    async def session(self, name: str, holder: int) -> BrokerSession | Conflict:
        message = OpenSession(name, holder, self._runtime.rng.bytes(TOKEN_BYTES))
        asked_at = self._loop.time()
        reply = await self._call(message)
        if isinstance(reply, Conflicting):
            return Conflict(reply.end_index)
        assert isinstance(reply, SessionOpened)
        live = LiveSession(name, holder, reply.number)
        session = RemoteSession(live, asked_at + self._ttl_s * OWN_SHARE, self._say_farewell)
        self._held.add(session)
        return session

    def _say_farewell(self, session: RemoteSession) -> None:
        """Tell the coordinator that the session has ended; if that fails, its time runs out there."""
        self._farewells.spawn(self._end_quietly(session.live))

    async def _end_quietly(self, live: LiveSession) -> None:
        try:
            await self.end_session(live)
        except BrokerError as error:
            logger.warning("session %s ends at its time limit: %s", live.name, error)

    async def follow_sessions(self) -> AsyncIterator[tuple[LiveSession, ...]]:
        version, last_link = 0, None
        while True:
            link = await self._ready_link()
            if link is not last_link:
                version, last_link = 0, link  # another run of the coordinator counts from its own start
            try:
                reply = await link.call(WatchSessions(version))
            except ConnectionError:
                continue
            assert isinstance(reply, SessionsNow)
            version = reply.version
            yield tuple(LiveSession(*row) for row in reply.sessions)

    async def end_session(self, live: LiveSession) -> None:
        await self._call(EndSession(live))

    async def _renew_forever(self) -> None:
        while self._failure is None:
            if await self._renew():
                await asyncio.sleep(self._ttl_s / RENEWALS_PER_TTL)

    async def _renew(self) -> bool:
        """Renew all sessions; False if it must be tried again at once. Also detects a coordinator that hangs."""
        try:
            link = await self._ready_link()
        except BrokerError:
            return True
        asked, asked_at = self._held.live, self._loop.time()
        try:
            async with asyncio.timeout(self._ttl_s / 2):
                reply = await link.call(Renew(asked))
        except TimeoutError:
            link.close(f"no answer to a renewal within {self._ttl_s / 2:.1f} s")
            return False
        except ConnectionError:
            return False
        assert isinstance(reply, Renewed)
        self._held.renewed(asked, reply.numbers, asked_at + self._ttl_s * OWN_SHARE)
        return True

    async def _watch_own_sessions(self) -> None:
        """Notice at once if another broker ends a session of ours. Without it the next renewal would."""
        while self._failure is None:
            try:
                async for alive in self.follow_sessions():
                    self._held.retain(alive)
            except BrokerError as error:
                if self._failure is None:
                    logger.warning("cannot watch sessions at %s; retrying: %s", self._access, error)
                    await asyncio.sleep(RECONNECT_S_MAX)


async def _with_pauses(attempt: Callable[[], Awaitable[bool]]) -> None:
    """Repeat until it succeeds, with a pause that doubles."""
    pause_s = RECONNECT_S_MIN
    while not await attempt():
        await asyncio.sleep(pause_s)
        pause_s = min(2 * pause_s, RECONNECT_S_MAX)
