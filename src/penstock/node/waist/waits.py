"""Calls that wait for data: until there is enough, they time out, their client disconnects, or the doors close.

Reads nothing itself: each call checks for data when a source changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Protocol

WAIT_MS_MAX = 600_000
"""Maximum wait time of a call, whatever the client requests."""


class Client(Protocol):
    """The waiting client: a connection."""

    def on_close(self, callback: Callable[[], None]) -> None: ...

    def not_on_close(self, callback: Callable[[], None]) -> None: ...


class Waitable(Protocol):
    """A source of changes: a partition."""

    def add_listener(self, listener: Callable[[], None]) -> None: ...

    def remove_listener(self, listener: Callable[[], None]) -> None: ...


class Waits:
    """All waiting calls of one door."""

    def __init__(self) -> None:
        self._waiting: dict[Wait, None] = {}

    def start(
        self,
        client: Client,
        sources: Sequence[Waitable],
        wait_ms: int,
        look: Callable[[], bool],
        give_up: Callable[[], None],
    ) -> None:
        """Call `look` whenever a source may have more, until it returns True; call `give_up` if that does not happen
        in time. Neither is called once the client has disconnected."""
        wait = Wait(self._waiting, client, sources, look, give_up)
        wait.start(min(wait_ms, WAIT_MS_MAX) / 1000)

    def release(self) -> None:
        """End all waits now."""
        for wait in list(self._waiting):
            wait.time_is_up()


class Wait:
    """One waiting call."""

    __slots__ = ("_all", "_client", "_give_up", "_look", "_sources", "_timer")

    def __init__(
        self,
        everyone: dict[Wait, None],
        client: Client,
        sources: Sequence[Waitable],
        look: Callable[[], bool],
        give_up: Callable[[], None],
    ) -> None:
        self._all = everyone
        self._client = client
        self._sources = sources
        self._look = look
        self._give_up = give_up
        self._timer: asyncio.TimerHandle | None = None

    def start(self, wait_s: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(wait_s, self.time_is_up)
        self._all[self] = None
        for source in self._sources:
            source.add_listener(self._changed)
        self._client.on_close(self._leave)

    def _changed(self) -> None:
        if self in self._all and self._look():
            self._end()

    def time_is_up(self) -> None:
        self._end()
        self._give_up()

    def _end(self) -> None:
        self._leave()
        self._client.not_on_close(self._leave)

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._all.pop(self, None)
        for source in self._sources:
            source.remove_listener(self._changed)
