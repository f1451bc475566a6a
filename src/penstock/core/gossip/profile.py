"""Timing of the gossip protocol, and what follows from it: timeouts and limits as functions of the cluster's size."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from math import ceil, log, log10


@dataclass(frozen=True, slots=True)
class GossipProfile:
    """One set of numbers; all peers of a cluster use the same. The defaults are memberlist's for a local network."""

    probe_ms: float = 1_000
    """One peer is probed per interval; the others take their turn in random order."""
    probe_timeout_ms: float = 500
    """A direct probe without an answer for this long is followed by indirect ones."""
    indirect_probes: int = 3
    suspicion_factor: int = 4
    """Shortest suspicion, in probe intervals; see `suspicion_ms`."""
    suspicion_max_factor: int = 6
    """Longest suspicion, as a multiple of the shortest."""
    gossip_ms: float = 200
    gossip_fanout: int = 3
    gossip_to_dead_ms: float = 30_000
    """A dead peer still receives updates for this long, so that it can refute."""
    retransmit_factor: int = 4
    sync_ms: float = 30_000
    """Interval of exchanging the whole state with a random peer."""
    rejoin_ms: float = 5_000
    """Interval of contacting one dead peer or silent seed; heals a cluster that was split."""
    publish_ms: float = 1_000
    """Attributes of a peer are spread at most this often."""
    dead_retention_ms: float = 86_400_000
    """Dead peers and those that left are listed for this long."""

    def scaled(self, factor: float) -> GossipProfile:
        """All times multiplied by `factor`."""
        names = [field.name for field in fields(self) if field.name.endswith("_ms")]
        return replace(self, **{name: getattr(self, name) * factor for name in names})

    def confirmations(self, peers: int) -> int:
        """Confirmations by others that shorten a suspicion to its minimum; 0 where too few peers could confirm."""
        wanted = self.suspicion_factor - 2
        return wanted if peers - 2 >= wanted else 0

    def suspicion_ms(self, peers: int, confirmed: int) -> float:
        """Lifeguard: a suspicion lasts long while only one peer holds it, and shorter with each confirmation."""
        shortest = self.suspicion_factor * max(1.0, log10(max(1, peers))) * self.probe_ms
        longest = self.suspicion_max_factor * shortest
        wanted = self.confirmations(peers)
        if not wanted:
            return shortest
        share = log(min(confirmed, wanted) + 1) / log(wanted + 1)
        return max(shortest, longest - share * (longest - shortest))

    def retransmits(self, peers: int) -> int:
        """How often one peer passes an update on."""
        return self.retransmit_factor * ceil(log10(peers + 1))


LAN = GossipProfile()
