"""One member of the cluster as gossip describes it: address, incarnation, state, attributes. Values only.

What a peer says about itself is ordered by (incarnation, version), what others say about its state by (incarnation,
state). Both only grow, so peers agree in whatever order updates arrive. A peer raises its incarnation to refute a
suspicion; only the peer itself does so.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from penstock.core.errors import TooLarge
from penstock.core.limits import GOSSIP_ATTRIBUTES_BYTES_MAX, GOSSIP_TEXT_BYTES_MAX
from penstock.core.model import Address

CONTROLLER = "controller"
"""Attribute of the peer that acts as controller: the number of its controller session."""

CONTENT_UNKNOWN = 0
"""Version of a peer whose state is known at this incarnation, but whose own description is not."""

Attributes = tuple[tuple[str, str], ...]
"""Sorted by name."""


class PeerState(IntEnum):
    """Within one incarnation a peer only moves to a later state."""

    ALIVE = 0
    SUSPECT = 1
    DEAD = 2
    LEFT = 3


@dataclass(frozen=True, slots=True)
class GossipPeer:
    """One member of the cluster."""

    id: int
    address: Address
    """Where it receives gossip. The host is an IP address: sending must not wait for a name server."""
    incarnation: int
    version: int = 1
    attributes: Attributes = ()
    state: PeerState = PeerState.ALIVE

    @property
    def is_living(self) -> bool:
        """Probed and counted: not known to be dead or gone."""
        return self.state <= PeerState.SUSPECT

    @property
    def age(self) -> tuple[int, int]:
        """The later of two descriptions of a peer has the greater one."""
        return self.incarnation, self.version

    def attribute(self, name: str) -> str | None:
        return next((value for key, value in self.attributes if key == name), None)


def checked_attributes(attributes: Mapping[str, str]) -> Attributes:
    """Raises TooLarge if the attributes would not fit into a packet beside other updates."""
    total_bytes = 0
    for name, value in attributes.items():
        sizes = len(name.encode()), len(value.encode())
        if max(sizes) > GOSSIP_TEXT_BYTES_MAX:
            raise TooLarge(
                f"the gossip attribute {name[:40]!r} or its value is longer than {GOSSIP_TEXT_BYTES_MAX} bytes"
            )
        total_bytes += 2 + sum(sizes)
    if total_bytes > GOSSIP_ATTRIBUTES_BYTES_MAX:
        raise TooLarge(
            f"the gossip attributes of a broker take {total_bytes} bytes, the limit is {GOSSIP_ATTRIBUTES_BYTES_MAX}"
        )
    return tuple(sorted(attributes.items()))


def controller_hint(peers: Iterable[GossipPeer]) -> GossipPeer | None:
    """The living peer that claims the latest controller session. A hint: the metadata log decides who may act."""
    best: tuple[int, GossipPeer] | None = None
    for peer in peers:
        claim = peer.attribute(CONTROLLER) if peer.is_living else None
        if claim is not None and claim.isascii() and claim.isdigit():
            number = int(claim)
            if best is None or (number, -peer.id) > (best[0], -best[1].id):
                best = number, peer
    return None if best is None else best[1]
