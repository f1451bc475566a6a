"""The sessions that this broker holds at a store in another process. Each ends here before it can end there.

The time of a session counts from the moment the renewal was sent, and is shorter than the store's: a broker that is
cut off, or was stopped for a while, knows that its session is over before another broker may take its place.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable

from penstock.node.cluster.metadata_log import LiveSession

OWN_SHARE = 5 / 6
"""The share of the store's time after which a session that was not renewed ends here."""
RENEWALS_PER_TTL = 4


class RemoteSession:
    """A session with a deadline that every renewal moves."""

    def __init__(self, live: LiveSession, deadline: float, on_end: Callable[[RemoteSession], None]) -> None:
        self.live = live
        self._loop = asyncio.get_running_loop()
        self._end: asyncio.Future[None] = self._loop.create_future()
        self._on_end = on_end
        self._deadline = deadline
        self._timer = self._loop.call_at(deadline, self.settle)

    @property
    def is_alive(self) -> bool:
        """Compares with the clock: after a long stall, the timer has yet to run."""
        return not self._end.done() and self._loop.time() < self._deadline

    async def ended(self) -> None:
        await asyncio.shield(self._end)

    def end(self) -> None:
        if not self._end.done():
            self.settle()
            self._on_end(self)

    def renewed(self, deadline: float) -> None:
        """Move the deadline. One that has passed cannot be moved: the broker may have acted on it."""
        if self.is_alive:
            self._deadline = deadline
            self._timer.cancel()
            self._timer = self._loop.call_at(deadline, self.settle)

    def settle(self) -> None:
        """The session is over."""
        if not self._end.done():
            self._timer.cancel()
            self._end.set_result(None)


class HeldSessions:
    """All sessions of one broker that are alive."""

    def __init__(self) -> None:
        self._by_number: dict[int, RemoteSession] = {}

    @property
    def live(self) -> tuple[LiveSession, ...]:
        """Those that can still be renewed."""
        self._by_number = {number: one for number, one in self._by_number.items() if one.is_alive}
        return tuple(session.live for session in self._by_number.values())

    def add(self, session: RemoteSession) -> None:
        self._by_number[session.live.number] = session

    def renewed(self, asked: Iterable[LiveSession], alive: Iterable[int], deadline: float) -> None:
        """The store's answer to a renewal: those that it does not name have ended."""
        known = frozenset(alive)
        for live in asked:
            session = self._by_number.get(live.number)
            if session is not None:
                session.renewed(deadline) if live.number in known else session.settle()

    def retain(self, alive: Iterable[LiveSession]) -> None:
        """All live sessions of the store: those of ours that are not among them have ended."""
        known = {live.number for live in alive}
        for number, session in self._by_number.items():
            if number not in known:
                session.settle()

    def end_all(self) -> None:
        for session in list(self._by_number.values()):
            session.end()

    def settle_all(self) -> None:
        for session in self._by_number.values():
            session.settle()
