"""Subscriptions that a client has to join again on its present connection, and when. No I/O; time is an argument.

The broker ends a membership with a retriable error when another broker takes over the subscription, or the one that
coordinates it is down. The connection and the other memberships stay.
"""

from __future__ import annotations

PAUSE_S, PAUSE_S_MAX = 0.1, 2.0
"""Delay before the next attempt; it doubles with each one that fails."""


class Rejoins:
    """The pending attempts of one client."""

    def __init__(self) -> None:
        self._due_s: dict[str, float] = {}
        self._pause_s: dict[str, float] = {}

    def add(self, name: str, now_s: float) -> None:
        """The membership has ended, or an attempt has failed: try again later."""
        pause_s = self._pause_s.get(name, PAUSE_S)
        self._due_s[name] = now_s + pause_s
        self._pause_s[name] = min(2 * pause_s, PAUSE_S_MAX)

    def take_due(self, now_s: float) -> list[str]:
        """The subscriptions to join now; each is returned once."""
        due = [name for name, due_s in self._due_s.items() if due_s <= now_s]
        for name in due:
            del self._due_s[name]
        return due

    def forget(self, name: str) -> bool:
        """The client has joined or does not want to; True if it was waiting for an attempt, so it is no member."""
        self._pause_s.pop(name, None)
        return self._due_s.pop(name, None) is not None

    def clear(self) -> None:
        """The connection is lost: the next one joins all subscriptions."""
        self._due_s.clear()
        self._pause_s.clear()
