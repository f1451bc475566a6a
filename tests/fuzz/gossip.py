"""Gossip packets: broken ones, and broken bodies with a valid signature, which only another broker could send.

A packet is taken or rejected with a reason; nothing is raised. Whatever a broker is told, its machine goes on and its
memory stays bounded.
"""

from __future__ import annotations

from random import Random

from fuzz.target import Target
from penstock.core.errors import Malformed
from penstock.core.gossip.gossip import Gossip
from penstock.core.gossip.messages import (
    Ack,
    Alive,
    Envelope,
    GossipMessage,
    Nack,
    Ping,
    PingRequest,
    SendPacket,
    Sync,
    Verdict,
)
from penstock.core.gossip.peer import GossipPeer, PeerState
from penstock.core.limits import GOSSIP_PEERS_MAX
from penstock.core.model import Address
from penstock.wire.gossip.messages import decode_gossip_body, encode_gossip_body, gossip_sizing
from penstock.wire.gossip.packets import BODY_BYTES_MAX, Packet, PacketSeal, Rejected
from sim.chance import SimRng

SEAL = PacketSeal("fuzz", b"a key for fuzzing")
SIZING = gossip_sizing(BODY_BYTES_MAX)
HOSTS = ("10.0.0.1", "10.0.0.2", "fd00::1")
MY_ID = 1
PACKETS_PER_MACHINE = 500


def make_peer(rng: Random) -> GossipPeer:
    attributes = {rng.choice(("kafka", "load", "größe", "")): "x" * rng.choice((0, 3, 100)) for _ in range(3)}
    return GossipPeer(
        rng.choice((MY_ID, 2, 3, rng.getrandbits(31))),
        Address(rng.choice(HOSTS), rng.randint(1, 65_535)),
        rng.choice((0, 1, 2, 2**62)),
        rng.choice((0, 1, 2**32 - 1)),
        tuple(sorted(attributes.items())) if rng.random() < 0.5 else (),
        rng.choice(list(PeerState)),
    )


def make_messages(rng: Random) -> tuple[GossipMessage, ...]:
    number, peer = rng.getrandbits(32), make_peer(rng)
    any_of: tuple[GossipMessage, ...] = (
        Ping(number, peer.id),
        PingRequest(number, peer.id, peer.address),
        Ack(number),
        Nack(number),
        Alive(peer),
        Verdict(peer.id, peer.incarnation, rng.choice(list(PeerState)[1:]), rng.getrandbits(31)),
        Sync(tuple(make_peer(rng) for _ in range(rng.randint(0, 2))), rng.random() < 0.5),
    )
    return tuple(rng.choices(any_of, k=rng.randint(1, 2)))


def make_packet(rng: Random) -> bytes:
    return SEAL.seal(
        Packet(rng.getrandbits(31), rng.getrandbits(64), rng.getrandbits(64), make_messages(rng))
    )


def read_packet(content: bytes) -> str:
    packet = SEAL.open(content)
    if isinstance(packet, Rejected):
        assert packet.detail
        return packet.reason.value
    assert SEAL.seal(packet) == content
    return "read"


def make_body(rng: Random) -> bytes:
    return encode_gossip_body(make_messages(rng))


class _Living:
    """A machine that is told everything, one packet after the other."""

    def __init__(self) -> None:
        me = GossipPeer(MY_ID, Address(HOSTS[0], 7946), 1)
        self.machine = Gossip(me, SimRng(Random(0)), SIZING, 0.0)
        self.now_ms = 0.0
        self.packets = 0

    def tell(self, messages: tuple[GossipMessage, ...]) -> None:
        self.packets += 1
        self.now_ms += 37
        machine = self.machine
        actions = machine.step(Envelope(2, Address(HOSTS[1], 7946), messages), self.now_ms)
        if self.now_ms >= machine.wake_ms:
            actions += machine.tick(self.now_ms)
        for action in actions:
            if isinstance(action, SendPacket):
                assert len(encode_gossip_body(action.messages)) <= BODY_BYTES_MAX
        assert len(machine.peers) <= GOSSIP_PEERS_MAX + 1


_living = _Living()


def read_body(content: bytes) -> str:
    """What is understood is written back to the same bytes, and does no harm."""
    global _living
    try:
        messages = decode_gossip_body(content)
    except Malformed:
        return "malformed"
    assert encode_gossip_body(messages) == content
    if _living.packets >= PACKETS_PER_MACHINE:
        _living = _Living()
    _living.tell(messages)
    return " ".join(type(message).__name__ for message in messages[:2])


TARGETS = (
    Target("gossip-packet", make_packet, read_packet),
    Target("gossip-body", make_body, read_body),
)
