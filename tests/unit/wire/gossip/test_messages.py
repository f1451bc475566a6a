"""Every field of a body is validated, and the error says what is wrong."""

from __future__ import annotations

import pytest

from penstock.core.errors import Malformed
from penstock.core.gossip.messages import Ack, Alive, Ping, PingRequest, Sync, Verdict
from penstock.core.gossip.peer import GossipPeer, PeerState
from penstock.core.model import Address
from penstock.wire.gossip.messages import decode_gossip_body, encode_gossip_body

PEER = GossipPeer(3, Address("10.0.0.3", 7946), 1, 1, (("a", "1"), ("b", "2")))


def raw(**changes: bytes) -> bytes:
    """An Alive message with some of its fields replaced."""
    fields = {
        "type": b"\x05",
        "id": bytes([0, 0, 0, 3]),
        "incarnation": bytes(7) + b"\x01",
        "version": bytes([0, 0, 0, 1]),
        "state": b"\x00",
        "address": b"\x04\x0a\x00\x00\x03\x1f\x0a",
        "attributes": b"\x02\x01a\x011\x01b\x012",
    }
    return b"".join((fields | changes).values())


def test_the_format() -> None:
    assert encode_gossip_body((Alive(PEER),)) == raw()
    assert decode_gossip_body(raw()) == (Alive(PEER),)
    assert encode_gossip_body((Ping(1, 2),)) == b"\x01\0\0\0\x01\0\0\0\x02"
    assert encode_gossip_body((Sync((), True),)) == b"\x07\x01\x00"


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "no message"),
        (b"\x09", "unknown gossip message type 9 at byte 0; known types are 1 ping"),
        (encode_gossip_body((Ack(1),)) + b"\x00", "type 0 at byte 5"),
        (b"\x03\x00\x00", "ends inside a field at byte 0"),
        (raw(id=b"\xff\xff\xff\xff"), "-1 is not a broker id"),
        (raw(incarnation=b"\xff" * 8), "exceeds 4611686018427387904"),
        (raw(state=b"\x04"), "unknown peer state 4"),
        (raw(address=b"\x05\0\0\0\0\0\0\0"), "4 or 16 bytes, not 5"),
        (raw(address=b"\x04\0\0\0\0\x1f\x0a"), "0.0.0.0:7946 is not the address of a peer"),
        (raw(address=b"\x04\xe0\0\0\x01\x1f\x0a"), "224.0.0.1:7946 is not the address of a peer"),
        (raw(address=b"\x04\x0a\0\0\x03\0\0"), "10.0.0.3:0 is not the address of a peer"),
        (raw(attributes=b"\x01\x09a"), "a length of 9"),
        (raw(attributes=b"\x01\x01\xff\x00"), "not UTF-8"),
        (raw(attributes=b"\x02\x01b\x00\x01a\x00"), "not sorted"),
        (raw(attributes=b"\x02\x01a\x00\x01a\x00"), "not sorted"),
        (
            raw(attributes=b"\x03" + b"".join(b"\x01%c\xc8%s" % (at, b"x" * 200) for at in b"abc")),
            "exceed 512",
        ),
        (b"\x06\0\0\0\x01" + bytes(8) + b"\x00\0\0\0\x02", "says that it is alive"),
        (b"\x07\x02\x00", "unknown flags 2"),
        (b"\x07\x00\x01", "ends inside a field"),
        (encode_gossip_body((PingRequest(1, 2, PEER.address),))[:-1], "ends inside a field"),
        (encode_gossip_body((Verdict(1, 2, PeerState.DEAD, 3),))[:-1], "ends inside a field"),
    ],
)
def test_what_is_wrong_is_said(content: bytes, words: str) -> None:
    with pytest.raises(Malformed, match=words):
        decode_gossip_body(content)
