"""The signed packet around gossip messages. Rejects are values with a reason; nothing here raises on foreign bytes.

    [2 "PG"][1 version][8 cluster][4 sender id][8 run][8 sequence][body][32 HMAC-SHA256 of all before it]

`cluster` is a hash of the cluster id. `run` is a random number of the sender's process and `sequence` counts its
packets; `replay` rejects what was received before. All brokers of a cluster share the key.
"""

from __future__ import annotations

import hmac
from enum import StrEnum
from hashlib import blake2b
from struct import Struct
from typing import NamedTuple

from penstock.core.errors import InvalidConfig, Malformed
from penstock.core.gossip.messages import GossipMessage
from penstock.core.limits import GOSSIP_PACKET_BYTES_MAX
from penstock.wire.gossip.messages import decode_gossip_body, encode_gossip_body

MAGIC = b"PG"
VERSION = 1
KEY_BYTES_MIN = 16
"""A shorter key could be guessed."""

_HEAD = Struct(">2sB8siQQ")
_CLUSTER_BYTES = 8
_TAG_BYTES = 32
BODY_BYTES_MAX = GOSSIP_PACKET_BYTES_MAX - _HEAD.size - _TAG_BYTES


class RejectReason(StrEnum):
    """Why a packet was dropped; the label of the metric."""

    SIZE = "size"
    PROTOCOL = "protocol"
    VERSION = "version"
    SIGNATURE = "signature"
    CLUSTER = "cluster"
    MALFORMED = "malformed"
    REPLAY = "replay"
    RATE = "rate"


class Rejected(NamedTuple):
    """A packet that is dropped. The detail is for people."""

    reason: RejectReason
    detail: str


class Packet(NamedTuple):
    """An authentic packet."""

    sender_id: int
    run: int
    sequence: int
    messages: tuple[GossipMessage, ...]


class PacketSeal:
    """Signs and verifies the packets of one cluster."""

    def __init__(self, cluster_id: str, key: bytes) -> None:
        if len(key) < KEY_BYTES_MIN:
            raise InvalidConfig(
                f"the cluster key has {len(key)} bytes; use at least {KEY_BYTES_MIN} random bytes, the same on"
                " every broker"
            )
        self._cluster_id = cluster_id
        self._cluster = blake2b(cluster_id.encode(), digest_size=_CLUSTER_BYTES).digest()
        self._key = key

    def seal(self, packet: Packet) -> bytes:
        body = encode_gossip_body(packet.messages)
        assert len(body) <= BODY_BYTES_MAX, "the machine fills packets by the size of its messages"
        head = _HEAD.pack(MAGIC, VERSION, self._cluster, packet.sender_id, packet.run, packet.sequence)
        signed = head + body
        return signed + hmac.digest(self._key, signed, "sha256")

    def open(self, raw: bytes) -> Packet | Rejected:
        """Verify and decode. Cheap checks come first; the body is decoded only if the signature is valid."""
        size = len(raw)
        if not _HEAD.size + _TAG_BYTES < size <= GOSSIP_PACKET_BYTES_MAX:
            return Rejected(RejectReason.SIZE, f"the packet has {size} bytes")
        magic, version, cluster, sender_id, run, sequence = _HEAD.unpack_from(raw)
        if magic != MAGIC:
            return Rejected(RejectReason.PROTOCOL, "the packet is not gossip")
        if version != VERSION:
            return Rejected(
                RejectReason.VERSION, f"gossip version {version}; this broker speaks version {VERSION}"
            )
        signed = raw[:-_TAG_BYTES]
        if not hmac.compare_digest(hmac.digest(self._key, signed, "sha256"), raw[-_TAG_BYTES:]):
            return Rejected(RejectReason.SIGNATURE, "the packet is not signed with this cluster's key")
        if cluster != self._cluster:
            return Rejected(
                RejectReason.CLUSTER, f"the sender belongs to another cluster than {self._cluster_id!r}"
            )
        if sender_id < 0:
            return Rejected(RejectReason.MALFORMED, f"{sender_id} is not a broker id")
        try:
            messages = decode_gossip_body(signed[_HEAD.size :])
        except Malformed as error:
            return Rejected(RejectReason.MALFORMED, str(error))
        return Packet(sender_id, run, sequence, messages)
