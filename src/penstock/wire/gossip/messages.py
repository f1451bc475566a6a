"""Codec of gossip messages, the body of a packet. Validates everything it reads and raises Malformed; no I/O.

    body     [1 type][fields] …                        as many messages as there are
    peer     [4 id][8 incarnation][4 version][1 state][address][1 count]{[1 length][name][1 length][value]}
    address  [1 length: 4 or 16][IP address][2 port]

Numbers are big-endian and unsigned, except ids. A body that was decoded encodes to the same bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from ipaddress import ip_address
from itertools import pairwise
from struct import Struct

from penstock.core.errors import Malformed
from penstock.core.gossip.gossip import Sizing
from penstock.core.gossip.messages import Ack, Alive, GossipMessage, Nack, Ping, PingRequest, Sync, Verdict
from penstock.core.gossip.peer import Attributes, GossipPeer, PeerState
from penstock.core.limits import GOSSIP_ATTRIBUTES_BYTES_MAX, GOSSIP_INCARNATION_MAX
from penstock.core.model import Address
from penstock.wire.frame_fields import FrameFields

_BYTE = Struct(">B")
_PORT = Struct(">H")
_PEER = Struct(">iQIB")
_PING = Struct(">BIi")
_SEQUENCE = Struct(">BI")
_VERDICT = Struct(">BiQBi")
_SYNC = Struct(">BBB")
_WANTS_REPLY = 1
_IP_BYTES = (4, 16)
_STATES = {int(state): state for state in PeerState}

PING, PING_REQUEST, ACK, NACK, ALIVE, VERDICT, SYNC = range(1, 8)
_NAMES = "1 ping, 2 ping request, 3 ack, 4 nack, 5 alive, 6 verdict, 7 sync"


def encode_gossip(message: GossipMessage) -> bytes:
    """One message with its type."""
    match message:
        case Ping():
            return _PING.pack(PING, message.sequence, message.target_id)
        case PingRequest():
            return _PING.pack(PING_REQUEST, message.sequence, message.target_id) + _address(message.target)
        case Ack():
            return _SEQUENCE.pack(ACK, message.sequence)
        case Nack():
            return _SEQUENCE.pack(NACK, message.sequence)
        case Alive():
            return _BYTE.pack(ALIVE) + encode_peer(message.peer)
        case Verdict():
            return _VERDICT.pack(
                VERDICT, message.peer_id, message.incarnation, message.state, message.accuser_id
            )
        case Sync():
            head = _SYNC.pack(SYNC, _WANTS_REPLY * message.wants_reply, len(message.peers))
            return head + b"".join(map(encode_peer, message.peers))


def encode_gossip_body(messages: Iterable[GossipMessage]) -> bytes:
    return b"".join(map(encode_gossip, messages))


def encode_peer(peer: GossipPeer) -> bytes:
    """Also the state, which an Alive message carries without meaning."""
    parts = [
        _PEER.pack(peer.id, peer.incarnation, peer.version, peer.state),
        _address(peer.address),
        _BYTE.pack(len(peer.attributes)),
    ]
    for pair in peer.attributes:
        for text in pair:
            raw = text.encode()
            parts += (_BYTE.pack(len(raw)), raw)
    return b"".join(parts)


@lru_cache(maxsize=1024)
def _address(address: Address) -> bytes:
    packed = ip_address(address.host).packed
    return _BYTE.pack(len(packed)) + packed + _PORT.pack(address.port)


def gossip_sizing(body_bytes_max: int) -> Sizing:
    """The sizes of this codec, for the machine that fills packets."""
    return Sizing(
        lambda message: len(encode_gossip(message)),
        body_bytes_max,
        _SYNC.size,
        lambda peer: len(encode_peer(peer)),
    )


# -- decode


def decode_gossip_body(raw: bytes) -> tuple[GossipMessage, ...]:
    """All messages of a packet. Raises Malformed."""
    fields = FrameFields(raw)
    found = []
    while fields.position < len(raw):
        at = fields.position
        decoder = _DECODERS.get(raw[at])
        if decoder is None:
            raise Malformed(f"unknown gossip message type {raw[at]} at byte {at}; known types are {_NAMES}")
        found.append(decoder(fields))
    if not found:
        raise Malformed("the packet contains no message")
    return tuple(found)


def _decode_ping(fields: FrameFields) -> Ping:
    _, sequence, target_id = fields.values(_PING)
    return Ping(sequence, _id(target_id))


def _decode_ping_request(fields: FrameFields) -> PingRequest:
    _, sequence, target_id = fields.values(_PING)
    return PingRequest(sequence, _id(target_id), _decode_address(fields))


def _decode_ack(fields: FrameFields) -> Ack:
    return Ack(fields.values(_SEQUENCE)[1])


def _decode_nack(fields: FrameFields) -> Nack:
    return Nack(fields.values(_SEQUENCE)[1])


def _decode_alive(fields: FrameFields) -> Alive:
    fields.values(_BYTE)
    return Alive(_decode_peer(fields))


def _decode_verdict(fields: FrameFields) -> Verdict:
    _, peer_id, incarnation, number, accuser_id = fields.values(_VERDICT)
    state = _state(number)
    if state is PeerState.ALIVE:
        raise Malformed(f"a verdict on peer {peer_id} says that it is alive; only the peer itself says so")
    return Verdict(_id(peer_id), _incarnation(incarnation), state, _id(accuser_id))


def _decode_sync(fields: FrameFields) -> Sync:
    _, flags, count = fields.values(_SYNC)
    if flags not in (0, _WANTS_REPLY):
        raise Malformed(f"unknown flags {flags} in a sync")
    return Sync(tuple(_decode_peer(fields) for _ in range(count)), flags == _WANTS_REPLY)


_DECODERS: dict[int, Callable[[FrameFields], GossipMessage]] = {
    PING: _decode_ping,
    PING_REQUEST: _decode_ping_request,
    ACK: _decode_ack,
    NACK: _decode_nack,
    ALIVE: _decode_alive,
    VERDICT: _decode_verdict,
    SYNC: _decode_sync,
}


def _decode_peer(fields: FrameFields) -> GossipPeer:
    peer_id, incarnation, version, number = fields.values(_PEER)
    state = _state(number)
    address = _decode_address(fields)
    return GossipPeer(
        _id(peer_id), address, _incarnation(incarnation), version, _decode_attributes(fields), state
    )


def _decode_address(fields: FrameFields) -> Address:
    (length,) = fields.values(_BYTE)
    if length not in _IP_BYTES:
        raise Malformed(f"an IP address has 4 or 16 bytes, not {length}")
    packed = fields.content(length)
    (port,) = fields.values(_PORT)
    return _found_address(packed, port)


@lru_cache(maxsize=1024)
def _found_address(packed: bytes, port: int) -> Address:
    found = ip_address(packed)
    if not port or found.is_unspecified or found.is_multicast:
        raise Malformed(f"{found}:{port} is not the address of a peer")
    return Address(str(found), port)


def _decode_attributes(fields: FrameFields) -> Attributes:
    start = fields.position
    (count,) = fields.values(_BYTE)
    found = tuple((fields.text(_BYTE), fields.text(_BYTE)) for _ in range(count))
    if fields.position - start - _BYTE.size > GOSSIP_ATTRIBUTES_BYTES_MAX:
        raise Malformed(f"attributes exceed {GOSSIP_ATTRIBUTES_BYTES_MAX} bytes")
    if any(earlier[0] >= later[0] for earlier, later in pairwise(found)):
        raise Malformed("attributes are not sorted by name")
    return found


def _id(number: int) -> int:
    if number < 0:
        raise Malformed(f"{number} is not a broker id")
    return number


def _incarnation(number: int) -> int:
    if number > GOSSIP_INCARNATION_MAX:
        raise Malformed(f"the incarnation {number} exceeds {GOSSIP_INCARNATION_MAX}")
    return number


def _state(number: int) -> PeerState:
    state = _STATES.get(number)
    if state is None:
        raise Malformed(f"unknown peer state {number}")
    return state
