"""Packets are taken, or rejected with the reason that helps."""

from __future__ import annotations

import hmac

import pytest

from penstock.core.errors import InvalidConfig
from penstock.core.gossip.messages import Ack, Alive
from penstock.core.gossip.peer import GossipPeer
from penstock.core.limits import GOSSIP_PACKET_BYTES_MAX
from penstock.core.model import Address
from penstock.wire.gossip.messages import encode_gossip_body
from penstock.wire.gossip.packets import BODY_BYTES_MAX, Packet, PacketSeal, Rejected, RejectReason

KEY = b"sixteen bytes or more"
SEAL = PacketSeal("one", KEY)
PACKET = Packet(3, 2**64 - 1, 9, (Ack(7),))
RAW = SEAL.seal(PACKET)


def reason(raw: bytes) -> RejectReason:
    found = SEAL.open(raw)
    assert isinstance(found, Rejected) and found.detail
    return found.reason


def signed(content: bytes) -> bytes:
    """What another broker with the key could send."""
    return content + hmac.digest(KEY, content, "sha256")


def test_a_small_packet_is_small() -> None:
    assert SEAL.open(RAW) == PACKET
    assert len(RAW) == 68


def test_the_largest_description_fits_twice() -> None:
    attributes = tuple((name, "x" * 251) for name in "ab")
    peer = GossipPeer(2**31 - 1, Address("fd00::1", 1), 2**62, 2**32 - 1, attributes)
    raw = SEAL.seal(Packet(1, 2, 3, (Alive(peer), Alive(peer))))
    assert len(raw) < GOSSIP_PACKET_BYTES_MAX
    assert len(encode_gossip_body((Alive(peer),))) * 2 <= BODY_BYTES_MAX


@pytest.mark.parametrize(
    ("raw", "why"),
    [
        (b"", RejectReason.SIZE),
        (RAW[:63], RejectReason.SIZE),
        (RAW + bytes(GOSSIP_PACKET_BYTES_MAX), RejectReason.SIZE),
        (b"GET / HTTP/1.1\r\n" + bytes(60), RejectReason.PROTOCOL),
        (b"PG\x02" + RAW[3:], RejectReason.VERSION),
        (RAW[:-1] + b"!", RejectReason.SIGNATURE),
        (RAW[:-33] + b"!" + RAW[-32:], RejectReason.SIGNATURE),
        (PacketSeal("one", KEY + b"x").seal(PACKET), RejectReason.SIGNATURE),
        (PacketSeal("two", KEY).seal(PACKET), RejectReason.CLUSTER),
        (signed(RAW[:11] + b"\xff\xff\xff\xff" + RAW[15:-32]), RejectReason.MALFORMED),
        (signed(RAW[:-33]), RejectReason.MALFORMED),
        (signed(RAW[:-32] + b"\x63"), RejectReason.MALFORMED),
    ],
)
def test_rejects(raw: bytes, why: RejectReason) -> None:
    assert reason(raw) is why


def test_a_short_key_is_refused_with_advice() -> None:
    with pytest.raises(InvalidConfig, match="has 15 bytes; use at least 16 random bytes"):
        PacketSeal("one", b"x" * 15)
