"""Change listeners. Each is called at most once per loop iteration, however many changes it brings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable


class Listeners:
    """The listeners for one kind of change."""

    __slots__ = ("_is_due", "_loop", "listening")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._is_due = False
        self.listening: dict[Callable[[], None], None] = {}
        """In the order of registration."""

    def add(self, listener: Callable[[], None]) -> None:
        self.listening[listener] = None

    def remove(self, listener: Callable[[], None]) -> None:
        self.listening.pop(listener, None)

    def notify_soon(self) -> None:
        """Call all listeners in the next loop iteration."""
        if not self._is_due:
            self._is_due = True
            self._loop.call_soon(self.notify)

    def notify(self) -> None:
        """Call all listeners now."""
        self._is_due = False
        for listener in list(self.listening):
            listener()
