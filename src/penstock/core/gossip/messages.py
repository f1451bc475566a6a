"""Messages between peers, and the actions that the machine asks of its host. Values only; wire/gossip encodes them."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.core.gossip.peer import GossipPeer, PeerState
from penstock.core.model import Address


@dataclass(frozen=True, slots=True)
class Ping:
    """Asks for an Ack. `target_id` tells a peer that took over another's address that it is not meant."""

    sequence: int
    target_id: int


@dataclass(frozen=True, slots=True)
class PingRequest:
    """Asks the receiver to ping the target and to pass on its Ack; a Nack says that it got none in time."""

    sequence: int
    target_id: int
    target: Address


@dataclass(frozen=True, slots=True)
class Ack:
    """Answers a ping, directly or for the target of a PingRequest."""

    sequence: int


@dataclass(frozen=True, slots=True)
class Nack:
    """The target of a PingRequest has not answered; the one who says so is well."""

    sequence: int


@dataclass(frozen=True, slots=True)
class Alive:
    """What a peer says about itself. Its `state` carries no information here."""

    peer: GossipPeer


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of a peer in the opinion of another: suspect, dead, or left if it says so itself."""

    peer_id: int
    incarnation: int
    state: PeerState
    accuser_id: int


@dataclass(frozen=True, slots=True)
class Sync:
    """Part of the sender's view. Each part stands alone: a lost one only makes the next exchange necessary."""

    peers: tuple[GossipPeer, ...]
    wants_reply: bool


GossipMessage = Ping | PingRequest | Ack | Nack | Alive | Verdict | Sync


@dataclass(frozen=True, slots=True)
class Envelope:
    """The messages of one packet whose sender is authenticated. Replies go to `source`."""

    sender_id: int
    source: Address
    messages: tuple[GossipMessage, ...]


@dataclass(frozen=True, slots=True)
class SendPacket:
    """Send these messages as one packet. Delivery is not expected."""

    target: Address
    messages: tuple[GossipMessage, ...]


@dataclass(frozen=True, slots=True)
class PeerChanged:
    """A peer is new, or its state, address or attributes changed. `before` is None for a new peer."""

    before: GossipPeer | None
    after: GossipPeer


@dataclass(frozen=True, slots=True)
class PeerForgotten:
    """A dead peer is no longer listed."""

    peer: GossipPeer


@dataclass(frozen=True, slots=True)
class IncarnationRaised:
    """This peer's incarnation; a restart must use a greater one."""

    incarnation: int


@dataclass(frozen=True, slots=True)
class AddressDisputed:
    """Somebody else claims this peer's id: a second process runs under it, or this broker moved to a new address."""

    address: Address


@dataclass(frozen=True, slots=True)
class ProbeAnswered:
    """A probe was answered, directly or through another peer."""

    peer_id: int
    round_trip_ms: float


GossipAction = SendPacket | PeerChanged | PeerForgotten | IncarnationRaised | AddressDisputed | ProbeAnswered
