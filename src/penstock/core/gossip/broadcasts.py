"""The queue of updates that are passed on with other packets, each a limited number of times."""

from __future__ import annotations

from collections.abc import Callable

from penstock.core.gossip.messages import Alive, GossipMessage, Verdict


class _Update:
    __slots__ = ("message", "number", "sent", "size")

    def __init__(self, message: Alive | Verdict, size: int, number: int) -> None:
        self.message = message
        self.size = size
        self.number = number
        self.sent = 0

    @property
    def turn(self) -> tuple[int, int]:
        """The update sent least often goes first; among equals the newest, which fewer peers know."""
        return self.sent, -self.number


class BroadcastQueue:
    """At most two updates per peer: its latest description and the latest verdict on it. Bounded by the peers."""

    def __init__(self, size_of: Callable[[GossipMessage], int]) -> None:
        self._size_of = size_of
        self._updates: dict[tuple[int, type], _Update] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._updates)

    def add(self, message: Alive | Verdict) -> None:
        """Replaces what this update supersedes."""
        if isinstance(message, Alive):
            peer_id = message.peer.id
            verdict = self._updates.get((peer_id, Verdict))
            if verdict is not None and _incarnation(verdict.message) < message.peer.incarnation:
                del self._updates[peer_id, Verdict]
        else:
            peer_id = message.peer_id
        self._count += 1
        self._updates[peer_id, type(message)] = _Update(message, self._size_of(message), self._count)

    def drop(self, peer_id: int) -> None:
        """Forget updates about a peer."""
        for kind in (Alive, Verdict):
            self._updates.pop((peer_id, kind), None)

    def clear(self) -> None:
        self._updates.clear()

    def take(self, room_bytes: int, sent_max: int) -> list[GossipMessage]:
        """Updates that fit into the rest of a packet; they count as sent once more."""
        taken: list[GossipMessage] = []
        if not self._updates:
            return taken
        for key, update in sorted(self._updates.items(), key=lambda item: item[1].turn):
            if update.size <= room_bytes:
                room_bytes -= update.size
                taken.append(update.message)
                update.sent += 1
                if update.sent >= sent_max:
                    del self._updates[key]
        return taken


def _incarnation(message: Alive | Verdict) -> int:
    return message.peer.incarnation if isinstance(message, Alive) else message.incarnation
