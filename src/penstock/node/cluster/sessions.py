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

    def __init__(self, last_number: int = 0) -> None:
        self._by_name: dict[str, LocalSession] = {}
        self.last_number = last_number
        self.version = 1
        """Incremented by every change."""
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def live(self) -> tuple[LiveSession, ...]:
        return tuple(session.live for session in self._by_name.values())

    def find(self, name: str) -> LiveSession | None:
        session = self._by_name.get(name)
        return None if session is None else session.live

    def open(self, name: str, holder: int) -> LocalSession | None:
        """Open a session; None while one of that name is alive."""
        if name in self._by_name:
            return None
        self.last_number += 1
        return self.restore(LiveSession(name, holder, self.last_number))

    def restore(self, live: LiveSession) -> LocalSession:
        """Add a session that was opened before this table was created."""
        assert live.name not in self._by_name and live.number <= self.last_number
        self._by_name[live.name] = session = LocalSession(self, live)
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
            version = self.version
            yield self.live
            await self.changed_since(version)

    async def changed_since(self, version: int) -> None:
        """Returns once the table is no longer at this version."""
        while self.version == version:
            self._waiting.append(asyncio.get_running_loop().create_future())
            await self._waiting[-1]

    def _changed(self) -> None:
        self.version += 1
        waiting, self._waiting = self._waiting, []
        for one in waiting:
            if not one.done():
                one.set_result(None)
