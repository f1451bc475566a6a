"""The model of the metadata store as a machine of the simulated network, and one broker's access to it.

Requests and answers travel through pipes: a cut delays them as TCP does, so that an append may take effect long after
its broker has given up, or take effect and never be heard of. Sessions have a time limit here and a shorter one at the
broker. Behaves towards brokers as a coordinator process does; faults are planted by whoever holds the `StoreHost`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import Any

from penstock.core.errors import BrokerError, MetadataUnavailable, NotLeader, TimedOut
from penstock.core.machines.catalog.events import Event
from penstock.node.cluster.metadata_log import (
    SESSION_TTL_S,
    BrokerSession,
    Conflict,
    Entry,
    LiveSession,
    lost_history,
)
from penstock.node.cluster.remote_sessions import OWN_SHARE, RENEWALS_PER_TTL, HeldSessions, RemoteSession
from penstock.node.runtime.tasks import Tasks
from sim.hosts import Host
from sim.loop import SimLoop
from sim.metadata_model import ModelStore
from sim.pipe import Pipe

NAME = "store"
CALL_S_MAX = 5.0
RECONNECT_S = 0.05
GRACE_S = SESSION_TTL_S / 8
"""How much longer than its time limit the store keeps a session, as a coordinator does."""

Answer = Callable[[Any], None]
Serve = Callable[[Answer], None]
"""A request: runs at the store, which answers at once or later."""


class StoreHost:
    """The store and its sessions on a host of its own."""

    def __init__(self, loop: SimLoop, store: ModelStore) -> None:
        self.loop = loop
        self.store = store
        self.host = loop.host(NAME)
        self._links: list[StoreLink] = []
        self._timers: dict[LiveSession, asyncio.TimerHandle] = {}
        self._tokens: dict[LiveSession, object] = {}

    # -- requests

    def append(self, index: int, events: Sequence[Event], answer: Answer) -> None:
        answer(self.store.take(index, tuple(events)))

    def read(self, index: int, answer: Answer) -> None:
        answer(self.store.read(index))

    def await_growth(self, index: int, answer: Answer) -> None:
        self._later(partial(self._grown, index), answer)

    async def _grown(self, index: int) -> list[Entry]:
        await self.store.grown_beyond(index)
        return self.store.read(index)

    def await_sessions(self, version: int, answer: Answer) -> None:
        self._later(partial(self._changed, version), answer)

    async def _changed(self, version: int) -> tuple[int, tuple[LiveSession, ...]]:
        await self.store.sessions.changed_since(version)
        return self.store.sessions.version, self.store.sessions.live

    def _later(self, work: Callable[[], Awaitable[Any]], answer: Answer) -> None:
        async def reply() -> None:
            try:
                answer(await work())
            except BrokerError as error:
                answer(error)

        self.loop.spawn(NAME, reply())

    def open_session(self, name: str, holder: int, token: object, answer: Answer) -> None:
        """The token tells a repeated request."""
        earlier = self.store.sessions.find(name)
        if earlier is not None:
            is_repeated = self._tokens[earlier] is token
            answer(earlier if is_repeated and self._renew(earlier) else Conflict(self.store.end_index))
            return
        session = self.store.sessions.open(name, holder)
        assert session is not None
        self._tokens[session.live] = token
        self._arm(session.live)
        answer(session.live)

    def renew(self, held: Sequence[LiveSession], answer: Answer) -> None:
        answer([live.number for live in held if self._renew(live)])

    def end_session(self, live: LiveSession, answer: Answer) -> None:
        self._end(live)
        answer(None)

    def _renew(self, live: LiveSession) -> bool:
        timer = self._timers.get(live)
        if timer is None:
            return False
        timer.cancel()
        self._arm(live)
        return True

    def _arm(self, live: LiveSession) -> None:
        root = self.loop.net.context
        self._timers[live] = self.loop.call_later(SESSION_TTL_S + GRACE_S, self._end, live, context=root)

    def _end(self, live: LiveSession) -> None:
        timer = self._timers.pop(live, None)
        if timer is not None:
            timer.cancel()
            del self._tokens[live]
            self.store.sessions.end(live)

    # -- faults

    def expire(self, live: LiveSession) -> None:
        """The store gives up a session before its time."""
        self._end(live)

    def reset(self, name: str) -> None:
        """Break the connections of a host. What is under way to the store may still arrive there."""
        for link in [one for one in self._links if one.host.name == name]:
            link.lose()

    def reset_all(self) -> None:
        for link in list(self._links):
            link.lose()

    # -- connections

    def connected(self, link: StoreLink) -> None:
        self._links.append(link)

    def disconnected(self, link: StoreLink) -> None:
        self._links.remove(link)


class StoreLink:
    """One connection of a broker to the store: requests and answers, each in their order."""

    def __init__(self, server: StoreHost) -> None:
        loop = server.loop
        self.host: Host = loop.here()
        self.is_lost = False
        self._server = server
        self._loop = loop
        self._out: Pipe[Callable[[], None]] = Pipe(loop.net, self.host, server.host, lambda act: act())
        self._back: Pipe[tuple[asyncio.Future[Any], Any]] = Pipe(
            loop.net, server.host, self.host, self._answered
        )
        self._asked: dict[asyncio.Future[Any], None] = {}
        server.connected(self)

    def ask(self, serve: Serve) -> asyncio.Future[Any]:
        """Send a request. The future fails with ConnectionError if the connection is lost before the answer."""
        answer: asyncio.Future[Any] = self._loop.create_future()
        if self.is_lost:
            answer.set_exception(ConnectionError("the connection to the store is gone"))
            return answer
        self._asked[answer] = None
        self._out.send(partial(self._serve, serve, answer))
        return answer

    def _serve(self, serve: Serve, answer: asyncio.Future[Any]) -> None:
        """Runs at the store, also after the broker has died or given up."""

        def reply(result: Any) -> None:
            self._back.send((answer, result))

        try:
            serve(reply)
        except BrokerError as error:
            reply(error)

    def _answered(self, reply: tuple[asyncio.Future[Any], Any]) -> None:
        answer, result = reply
        self._asked.pop(answer, None)
        if self.is_lost or answer.done():
            return
        if isinstance(result, BrokerError):
            answer.set_exception(result)
        else:
            answer.set_result(result)

    def lose(self) -> None:
        if self.is_lost:
            return
        self.is_lost = True
        self._server.disconnected(self)
        asked, self._asked = self._asked, {}
        for answer in asked:
            if not answer.done():
                answer.set_exception(ConnectionError("the connection to the store broke"))


class NetMetadataLog:
    """SharedMetadataLog of one broker. Reconnects by itself; an append is never sent twice."""

    is_shared = True

    def __init__(self, server: StoreHost, *, seen_index: int = 0) -> None:
        self.cluster_id = "model-cluster"
        self._server = server
        self._loop = asyncio.get_running_loop()
        self.seen_index = seen_index
        self._link: StoreLink | None = None
        self._held = HeldSessions()
        self._tasks = Tasks()
        self._farewells = Tasks()
        self._connecting = asyncio.Lock()
        self._is_closed = False

    async def open(self) -> None:
        """Connect; raises MetadataUnavailable if the store does not answer."""
        await self.read(self.seen_index)
        self._tasks.spawn(self._renew_forever())
        self._tasks.spawn(self._watch_own_sessions())

    async def close(self) -> None:
        self._held.end_all()
        await self._farewells.finish()
        await self._tasks.stop()
        self._held.settle_all()
        self._is_closed = True

    async def compact(self) -> None:
        """The store compacts the log itself."""

    # -- the connection

    async def _ready_link(self) -> StoreLink:
        """A connection on which the store has answered once."""
        async with self._connecting:
            while self._link is None or self._link.is_lost:
                if self._is_closed:
                    raise NotLeader("the broker is stopping")
                await self._connect()
            return self._link

    async def _connect(self) -> None:
        link, seen_index = StoreLink(self._server), self.seen_index
        try:
            async with asyncio.timeout(CALL_S_MAX):
                end_index = await link.ask(self._greet)
        except (ConnectionError, TimeoutError):
            link.lose()
            await asyncio.sleep(RECONNECT_S)
            return
        if end_index < seen_index:
            raise lost_history(seen_index, end_index)
        self._link = link

    def _greet(self, answer: Answer) -> None:
        answer(self._server.store.end_index)

    async def _call(self, serve: Serve, *, is_repeatable: bool = True) -> Any:
        is_sent = False
        try:
            async with asyncio.timeout(CALL_S_MAX):
                while True:
                    link = await self._ready_link()
                    is_sent = True
                    try:
                        return await link.ask(serve)
                    except ConnectionError:
                        if not is_repeatable:
                            raise TimedOut("the connection to the metadata store broke") from None
        except TimeoutError:
            if is_sent:
                raise TimedOut("the metadata store does not answer") from None
            raise MetadataUnavailable("the metadata store cannot be reached") from None

    # -- events

    async def append(self, index: int, events: Sequence[Event]) -> int | Conflict:
        assert events, "an append has at least one event"
        outcome: int | Conflict = await self._call(
            partial(self._server.append, index, events), is_repeatable=False
        )
        if isinstance(outcome, int):
            self.seen_index = max(self.seen_index, outcome)
        return outcome

    async def read(self, from_index: int) -> Sequence[Entry]:
        try:
            entries: Sequence[Entry] = await self._call(partial(self._server.read, from_index))
        except TimedOut as error:
            raise MetadataUnavailable(str(error)) from None
        return self._seen(entries)

    def _seen(self, entries: Sequence[Entry]) -> Sequence[Entry]:
        if entries:
            self.seen_index = max(self.seen_index, entries[-1].index)
        return entries

    async def follow(self, from_index: int) -> AsyncIterator[Entry]:
        index = from_index
        while True:
            link = await self._ready_link()
            try:
                entries = await link.ask(partial(self._server.await_growth, index))
            except ConnectionError:
                continue
            for entry in self._seen(entries):
                yield entry
                index = entry.index

    # -- sessions

    async def session(self, name: str, holder: int) -> BrokerSession | Conflict:
        asked_s = self._loop.time()
        opened = await self._call(partial(self._server.open_session, name, holder, object()))
        if isinstance(opened, Conflict):
            return opened
        session = RemoteSession(opened, asked_s + SESSION_TTL_S * OWN_SHARE, self._say_farewell)
        self._held.add(session)
        return session

    def _say_farewell(self, session: RemoteSession) -> None:
        self._farewells.spawn(self._end_quietly(session.live))

    async def _end_quietly(self, live: LiveSession) -> None:
        try:
            await self.end_session(live)
        except BrokerError:
            return  # its time runs out at the store

    async def follow_sessions(self) -> AsyncIterator[tuple[LiveSession, ...]]:
        version = 0
        while True:
            link = await self._ready_link()
            try:
                version, live = await link.ask(partial(self._server.await_sessions, version))
            except ConnectionError:
                continue
            yield live

    async def end_session(self, live: LiveSession) -> None:
        await self._call(partial(self._server.end_session, live))

    async def _renew_forever(self) -> None:
        while True:
            link = await self._ready_link()
            asked, asked_s = self._held.live, self._loop.time()
            try:
                async with asyncio.timeout(SESSION_TTL_S / 2):
                    alive = await link.ask(partial(self._server.renew, asked))
            except (TimeoutError, ConnectionError):
                link.lose()
                continue
            self._held.renewed(asked, alive, asked_s + SESSION_TTL_S * OWN_SHARE)
            await asyncio.sleep(SESSION_TTL_S / RENEWALS_PER_TTL)

    async def _watch_own_sessions(self) -> None:
        async for alive in self.follow_sessions():
            self._held.retain(alive)
