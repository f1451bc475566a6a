"""Probes: the one in flight for this peer, those relayed for others, and whose turn is next. Sends nothing itself."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.gossip.health import LocalHealth
from penstock.core.gossip.messages import Ping
from penstock.core.gossip.peer import GossipPeer
from penstock.core.gossip.profile import GossipProfile
from penstock.core.gossip.selection import shuffled
from penstock.core.limits import GOSSIP_RELAYS_MAX
from penstock.core.machine import NEVER_MS
from penstock.core.model import Address
from penstock.core.ports import Rng

NACK_SHARE = 0.8
"""A relay denies after this share of the probe timeout: the requester must hear it before its own probe ends."""

_SEQUENCE_BITS = 32


class Probe:
    """A probe in flight. It ends at `ends_ms`; from `indirect_ms` on other peers are asked to try."""

    __slots__ = ("ends_ms", "indirect_ms", "nacks_missing", "requests", "sequence", "started_ms", "target_id")

    def __init__(self, sequence: int, target_id: int, started_ms: float) -> None:
        self.sequence = sequence
        self.target_id = target_id
        self.started_ms = started_ms
        self.indirect_ms = self.ends_ms = started_ms
        self.requests = 0
        """How many other peers were asked."""
        self.nacks_missing = 0
        """How many of them have not said that they got no answer either."""


class Relay:
    """A ping for another peer, whose own sequence number is `sequence`."""

    __slots__ = ("deadline_ms", "requester", "sequence")

    def __init__(self, requester: Address, sequence: int, deadline_ms: float) -> None:
        self.requester = requester
        self.sequence = sequence
        self.deadline_ms = deadline_ms


class Prober:
    """At most one own probe at a time, as in SWIM."""

    def __init__(self, profile: GossipProfile, health: LocalHealth, rng: Rng) -> None:
        self._profile = profile
        self._health = health
        self._rng = rng
        self._sequence = rng.below(1 << _SEQUENCE_BITS)
        self._order: list[int] = []
        self._relays: dict[int, Relay] = {}
        self.probe: Probe | None = None

    @property
    def deadline_ms(self) -> float:
        """When a probe or relay in flight needs attention."""
        deadline = min((one.deadline_ms for one in self._relays.values()), default=NEVER_MS)
        probe = self.probe
        if probe is None:
            return deadline
        return min(deadline, probe.indirect_ms, probe.ends_ms)

    def next_target(self, living: Sequence[GossipPeer]) -> GossipPeer | None:
        """Round robin in random order, so that every peer is probed within a bounded time."""
        by_id = {peer.id: peer for peer in living}
        while by_id:
            if not self._order:
                self._order = shuffled(self._rng, sorted(by_id))
            found = by_id.get(self._order.pop())
            if found is not None:
                return found
        return None

    def insert(self, peer_id: int) -> None:
        """A new peer gets a random turn in the present round."""
        self._order.insert(self._rng.below(len(self._order) + 1), peer_id)

    def start(self, target: GossipPeer, now_ms: float) -> Ping:
        """Begin a probe; a slow peer waits longer for answers."""
        probe = self.probe = Probe(self._next_sequence(), target.id, now_ms)
        probe.indirect_ms = now_ms + self._health.stretched_ms(self._profile.probe_timeout_ms)
        probe.ends_ms = now_ms + self._health.stretched_ms(self._profile.probe_ms)
        return Ping(probe.sequence, target.id)

    def asked(self, requests: int) -> None:
        """So many other peers were asked to try; nobody else is asked again."""
        assert self.probe is not None
        self.probe.requests = self.probe.nacks_missing = requests
        self.probe.indirect_ms = NEVER_MS

    def failed_points(self) -> int:
        """What an unanswered probe says about this peer's own health: relays that did not even deny are a bad sign,
        and so is having nobody to ask."""
        probe = self.probe
        assert probe is not None
        return probe.nacks_missing if probe.requests else 1

    def nacked(self, sequence: int) -> None:
        if self.probe is not None and self.probe.sequence == sequence and self.probe.nacks_missing:
            self.probe.nacks_missing -= 1

    def relay(self, requester: Address, sequence: int, target_id: int, now_ms: float) -> Ping | None:
        """The ping to send for another peer; None if too many are in flight."""
        if len(self._relays) >= GOSSIP_RELAYS_MAX:
            return None
        own = self._next_sequence()
        deadline_ms = now_ms + NACK_SHARE * self._profile.probe_timeout_ms
        self._relays[own] = Relay(requester, sequence, deadline_ms)
        return Ping(own, target_id)

    def take_relay(self, sequence: int) -> Relay | None:
        """The relay that this answer is for."""
        return self._relays.pop(sequence, None)

    def expired_relays(self, now_ms: float) -> list[Relay]:
        due = [number for number, one in self._relays.items() if one.deadline_ms <= now_ms]
        return [self._relays.pop(number) for number in due]

    def _next_sequence(self) -> int:
        self._sequence = (self._sequence + 1) % (1 << _SEQUENCE_BITS)
        return self._sequence
