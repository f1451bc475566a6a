"""One suspicion: who holds it and when it becomes a verdict. Confirmations by other peers shorten it."""

from __future__ import annotations

from penstock.core.gossip.profile import GossipProfile


class Suspicion:
    """Started by one accuser. The number of peers is fixed at the start, so that confirmations only shorten it."""

    __slots__ = ("_accusers", "_peers", "_profile", "_started_ms")

    def __init__(self, profile: GossipProfile, accuser_id: int, peers: int, now_ms: float) -> None:
        self._profile = profile
        self._peers = peers
        self._accusers = {accuser_id: None}
        self._started_ms = now_ms

    @property
    def deadline_ms(self) -> float:
        return self._started_ms + self._profile.suspicion_ms(self._peers, len(self._accusers) - 1)

    def confirm(self, accuser_id: int) -> bool:
        """True if this accuser is new and still counts; only then is the suspicion worth passing on."""
        is_open = len(self._accusers) - 1 < self._profile.confirmations(self._peers)
        if not is_open or accuser_id in self._accusers:
            return False
        self._accusers[accuser_id] = None
        return True
