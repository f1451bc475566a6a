"""The other peers as this one sees them. Merges descriptions and verdicts; the order of arrival does not matter.

A description moves a peer forward by (incarnation, version), a verdict by (incarnation, state); see `peer`. Suspicions
run out here and become deaths. Who is told about it is the machine's business.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.core.gossip.messages import PeerChanged, Verdict
from penstock.core.gossip.peer import CONTENT_UNKNOWN, GossipPeer, PeerState
from penstock.core.gossip.profile import GossipProfile
from penstock.core.gossip.suspicion import Suspicion
from penstock.core.limits import GOSSIP_PEERS_MAX
from penstock.core.machine import NEVER_MS


class _Row:
    __slots__ = ("peer", "since_ms", "suspicion")

    def __init__(self, peer: GossipPeer, now_ms: float) -> None:
        self.peer = peer
        self.since_ms = now_ms
        """When the peer entered its state."""
        self.suspicion: Suspicion | None = None


class PeerTable:
    """All known peers except this one."""

    def __init__(self, profile: GossipProfile) -> None:
        self._profile = profile
        self._rows: dict[int, _Row] = {}
        self._suspects: dict[int, Suspicion] = {}
        self._living: tuple[GossipPeer, ...] | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, peer_id: int) -> GossipPeer | None:
        row = self._rows.get(peer_id)
        return None if row is None else row.peer

    @property
    def peers(self) -> list[GossipPeer]:
        return [row.peer for row in self._rows.values()]

    @property
    def living(self) -> tuple[GossipPeer, ...]:
        """In the order in which they became known."""
        if self._living is None:
            self._living = tuple(row.peer for row in self._rows.values() if row.peer.is_living)
        return self._living

    @property
    def cluster_size(self) -> int:
        """Living peers, this one included."""
        return len(self.living) + 1

    @property
    def deadline_ms(self) -> float:
        """When the next suspicion runs out."""
        return min((one.deadline_ms for one in self._suspects.values()), default=NEVER_MS)

    @property
    def dead(self) -> list[GossipPeer]:
        """Peers that failed; those that left on purpose are not meant."""
        return [row.peer for row in self._rows.values() if row.peer.state is PeerState.DEAD]

    def died_after(self, earliest_ms: float) -> list[GossipPeer]:
        return [peer for peer in self.dead if self._rows[peer.id].since_ms > earliest_ms]

    def shareable(self, now_ms: float) -> list[GossipPeer]:
        """What another peer should know. Old deaths are left out: else peers would remind each other of them for
        ever."""
        horizon_ms = now_ms - self._profile.dead_retention_ms / 2
        return [row.peer for row in self._rows.values() if row.peer.is_living or row.since_ms >= horizon_ms]

    # -- merge

    def learn(self, peer: GossipPeer, now_ms: float) -> PeerChanged | None:
        """Merge what a peer says about itself. A new incarnation is alive, whatever was said about earlier ones."""
        row = self._rows.get(peer.id)
        if row is None:
            return self.add(replace(peer, state=PeerState.ALIVE), now_ms)
        known = row.peer
        if peer.age <= known.age:
            return None
        state = known.state if peer.incarnation == known.incarnation else PeerState.ALIVE
        return self._set(row, replace(peer, state=state), now_ms)

    def add(self, peer: GossipPeer, now_ms: float) -> PeerChanged | None:
        """Add an unknown peer, unless the table is full of living ones."""
        assert peer.state is not PeerState.SUSPECT, "a suspicion has an accuser and a deadline"
        if len(self._rows) >= GOSSIP_PEERS_MAX and not self._evict():
            return None
        self._rows[peer.id] = _Row(peer, now_ms)
        self._living = None
        return PeerChanged(None, peer)

    def _evict(self) -> bool:
        dead = [row for row in self._rows.values() if not row.peer.is_living]
        if not dead:
            return False
        self._living = None
        del self._rows[min(dead, key=lambda row: (row.since_ms, row.peer.id)).peer.id]
        return True

    def judge(self, verdict: Verdict, now_ms: float) -> tuple[bool, PeerChanged | None]:
        """Merge what somebody says about a peer's state: (whether it is worth passing on, the change)."""
        row = self._rows.get(verdict.peer_id)
        if row is None or verdict.incarnation < row.peer.incarnation:
            return False, None
        known = row.peer
        is_later = verdict.incarnation > known.incarnation
        if not is_later and verdict.state <= known.state:
            suspicion = row.suspicion if verdict.state is PeerState.SUSPECT else None
            return suspicion is not None and suspicion.confirm(verdict.accuser_id), None
        peers = self.cluster_size
        version = CONTENT_UNKNOWN if is_later else known.version
        judged = replace(known, incarnation=verdict.incarnation, version=version, state=verdict.state)
        changed = self._set(row, judged, now_ms)
        if verdict.state is PeerState.SUSPECT:
            row.suspicion = Suspicion(self._profile, verdict.accuser_id, peers, now_ms)
            self._suspects[known.id] = row.suspicion
        return True, changed

    def _set(self, row: _Row, peer: GossipPeer, now_ms: float) -> PeerChanged:
        before = row.peer
        if peer.state is not before.state or peer.incarnation != before.incarnation:
            row.since_ms = now_ms
            row.suspicion = None
            self._suspects.pop(peer.id, None)
        row.peer = peer
        self._living = None
        return PeerChanged(before, peer)

    # -- time

    def expired(self, now_ms: float) -> list[GossipPeer]:
        """Suspects whose time to refute is over."""
        due = [peer_id for peer_id, one in self._suspects.items() if one.deadline_ms <= now_ms]
        return [self._rows[peer_id].peer for peer_id in due]

    def forget_dead(self, now_ms: float) -> list[GossipPeer]:
        """Remove peers that have been dead or gone for longer than the retention."""
        horizon_ms = now_ms - self._profile.dead_retention_ms
        gone = [
            row.peer for row in self._rows.values() if not row.peer.is_living and row.since_ms < horizon_ms
        ]
        for peer in gone:
            del self._rows[peer.id]
            self._living = None
        return gone
