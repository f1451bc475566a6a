"""The live sessions of one store, held in one process. Does not know how long a session lasts without renewal.

The owner of a store keeps one table: a name has at most one live session, and followers see every state of the table,
or a later one if they are slow.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from penstock.node.cluster.metadata_log import LiveSession


class LocalSession:
    """A session whose end is noticed inside this process at once."""

    def __init__(self, table: Sessions, live: LiveSession) -> None:
        self.live = live
        self._table = table
        self._end: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @property
    def is_alive(self) -> bool:
        return not self._end.done()

    async def ended(self) -> None:
        await asyncio.shield(self._end)

    def end(self) -> None:
        self._table.end(self.live)

    def settle(self) -> None:
        """Called by the table, once: the session is over."""
        self._end.set_result(None)


class Sessions:
    """Live sessions by name, in the order in which they were opened."""

    def __init__(self) -> None:
        self._by_name: dict[str, LocalSession] = {}
        self._last_number = 0
        self._waiting: list[asyncio.Future[None]] = []
        self._version = 0

    @property
    def live(self) -> tuple[LiveSession, ...]:
        return tuple(session.live for session in self._by_name.values())

    def open(self, name: str, holder: int) -> LocalSession | None:
        """Open a session; None while one of that name is alive."""
        if name in self._by_name:
            return None
        self._last_number += 1
        session = LocalSession(self, LiveSession(name, holder, self._last_number))
        self._by_name[name] = session
        self._changed()
        return session

    def end(self, live: LiveSession) -> None:
        """End this session, unless it has ended. Another of the same name is not touched."""
        session = self._by_name.get(live.name)
        if session is not None and session.live == live:
            del self._by_name[live.name]
            session.settle()
            self._changed()

    def end_all(self) -> None:
        for live in self.live:
            self.end(live)
        self._changed()

    async def follow(self) -> AsyncIterator[tuple[LiveSession, ...]]:
        """The sessions now, and again after changes."""
        while True:
            version = self._version
            yield self.live
            while self._version == version:
                self._waiting.append(asyncio.get_running_loop().create_future())
                await self._waiting[-1]

    def _changed(self) -> None:
        self._version += 1
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)
