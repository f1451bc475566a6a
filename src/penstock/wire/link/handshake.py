"""The SASL mechanism PENSTOCK-LINK: both brokers prove that they know the cluster's link key. No I/O, no randomness.

    initiator → hello       levels it speaks, own id, id of the broker it means, cluster id, nonce
    responder → challenge   level they speak, own id, cluster id, nonce, proof
    initiator → proof

Each proof is an HMAC-SHA256 over hello and challenge under a label that names its sender. The key is never sent; a
proof cannot be replayed on another connection, nor returned to its sender, and no field can be changed on the way. What
is said *after* the handshake is not protected: that takes TLS.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from hashlib import sha256
from struct import Struct
from typing import NamedTuple

from penstock.core.errors import (
    ClusterForbidden,
    InvalidRequest,
    Malformed,
    UnknownBroker,
    UnsupportedVersion,
    WrongCluster,
)
from penstock.core.limits import BROKER_ID_MAX
from penstock.wire.frame_fields import FrameFields

MECHANISM = "PENSTOCK-LINK"
LEVEL_MIN = LEVEL_MAX = 1
"""Levels of the protocol between brokers that this version speaks: the handshake, and which calls follow it."""
NONCE_BYTES = 32
PROOF_BYTES = 32
TOKEN_BYTES_MAX = 512
"""Longer tokens are refused unread: they come from clients that have proven nothing."""

_TEXT_BYTES_MAX = 255
_HELLO = Struct(f">4sHHii{NONCE_BYTES}s")
_CHALLENGE = Struct(f">4sHi{NONCE_BYTES}s")
_TEXT = Struct(">B")
_MAGIC = b"PSLK"
_INITIATOR, _RESPONDER = b"penstock link initiator", b"penstock link responder"


class LinkIdentity(NamedTuple):
    """Who a broker is on its links."""

    broker_id: int
    cluster_id: str
    link_key: bytes

    def __repr__(self) -> str:
        """The key must not end up in a log."""
        return f"LinkIdentity(broker_id={self.broker_id}, cluster_id={self.cluster_id!r}, link_key=…)"


class LinkHello(NamedTuple):
    """The first token of the initiator."""

    level_min: int
    level_max: int
    broker_id: int
    peer_id: int
    """The broker that the initiator wants to reach."""
    cluster_id: str
    nonce: bytes


class LinkChallenge(NamedTuple):
    """The responder's answer. Empty `proof`: the part that proofs are made of."""

    level: int
    broker_id: int
    cluster_id: str
    nonce: bytes
    proof: bytes = b""


# -- tokens


def encode_hello(hello: LinkHello) -> bytes:
    numbers = hello.level_min, hello.level_max, hello.broker_id, hello.peer_id
    return _HELLO.pack(_MAGIC, *numbers, hello.nonce) + _encode_text(hello.cluster_id)


def encode_challenge(challenge: LinkChallenge) -> bytes:
    start = _CHALLENGE.pack(_MAGIC, challenge.level, challenge.broker_id, challenge.nonce)
    return start + _encode_text(challenge.cluster_id) + challenge.proof


def decode_hello(token: bytes) -> LinkHello:
    """Raises Malformed."""
    fields = _open(token)
    magic, level_min, level_max, broker_id, peer_id, nonce = fields.values(_HELLO)
    hello = LinkHello(level_min, level_max, broker_id, peer_id, fields.text(_TEXT), nonce)
    _check_end(fields, magic)
    if not 1 <= level_min <= level_max:
        raise Malformed(f"the levels of the link handshake are {level_min} to {level_max}")
    if not (0 <= broker_id <= BROKER_ID_MAX and 0 <= peer_id <= BROKER_ID_MAX):
        raise Malformed("a broker id in the link handshake is negative")
    return hello


def decode_challenge(token: bytes) -> LinkChallenge:
    """Raises Malformed."""
    fields = _open(token)
    magic, level, broker_id, nonce = fields.values(_CHALLENGE)
    challenge = LinkChallenge(level, broker_id, fields.text(_TEXT), nonce, fields.content(PROOF_BYTES))
    _check_end(fields, magic)
    return challenge


def _encode_text(text: str) -> bytes:
    content = text.encode()
    assert len(content) <= _TEXT_BYTES_MAX, "the cluster id is too long"
    return _TEXT.pack(len(content)) + content


def _open(token: bytes) -> FrameFields:
    if len(token) > TOKEN_BYTES_MAX:
        raise Malformed(
            f"a token of {len(token)} bytes is too long for {MECHANISM}, the limit is {TOKEN_BYTES_MAX}"
        )
    return FrameFields(token)


def _check_end(fields: FrameFields, magic: bytes) -> None:
    if magic != _MAGIC:
        raise Malformed(f"the token does not belong to {MECHANISM}")
    if fields.left_bytes:
        raise Malformed(f"the token has {fields.left_bytes} bytes too many")


def _prove(link_key: bytes, label: bytes, hello: LinkHello, challenge: LinkChallenge) -> bytes:
    stated = encode_hello(hello), encode_challenge(challenge._replace(proof=b""))
    # Every part has its length in front or is of fixed size, so that no two handshakes hash the same bytes.
    return hmac.new(link_key, label + b"\0" + b"".join(stated), sha256).digest()


# -- the two sides


class LinkInitiator:
    """The broker that opens the connection. Once `answer` returns, the peer has proven itself."""

    def __init__(self, identity: LinkIdentity, peer_id: int, nonce: bytes) -> None:
        self._identity = identity
        self._hello = LinkHello(LEVEL_MIN, LEVEL_MAX, identity.broker_id, peer_id, identity.cluster_id, nonce)

    @property
    def hello(self) -> bytes:
        return encode_hello(self._hello)

    def answer(self, token: bytes) -> bytes:
        """The proof for a challenge. Raises Malformed, UnsupportedVersion, WrongCluster, UnknownBroker or
        ClusterForbidden."""
        challenge, hello = decode_challenge(token), self._hello
        link_key = self._identity.link_key
        _check_cluster(hello.cluster_id, challenge.cluster_id, challenge.broker_id)
        if challenge.broker_id != hello.peer_id:
            raise UnknownBroker(
                f"broker {challenge.broker_id} listens there instead of broker {hello.peer_id}: check the advertised"
                " addresses of both"
            )
        if not hmac.compare_digest(_prove(link_key, _RESPONDER, hello, challenge), challenge.proof):
            raise ClusterForbidden(
                f"whoever listens there does not know the link key of cluster {hello.cluster_id}"
            )
        if not hello.level_min <= challenge.level <= hello.level_max:
            raise UnsupportedVersion(
                f"it chose level {challenge.level} of the link protocol, this broker speaks {hello.level_min} to"
                f" {hello.level_max}: run versions of Penstock that can talk to each other"
            )
        return _prove(link_key, _INITIATOR, hello, challenge)


class LinkResponder:
    """The broker that was connected to. Takes one hello and one proof; a failed handshake cannot be continued."""

    def __init__(self, identity: LinkIdentity, nonce: bytes, is_member: Callable[[int], bool]) -> None:
        self._identity = identity
        self._nonce = nonce
        self._is_member = is_member
        self._hello: LinkHello | None = None
        self._expected: bytes | None = None
        self._has_failed = False

    def receive(self, token: bytes) -> bytes | int:
        """The challenge for a hello; the id of the broker for its proof. Raises Malformed, UnsupportedVersion,
        WrongCluster, UnknownBroker, InvalidRequest or ClusterForbidden."""
        if self._has_failed:
            raise InvalidRequest("the link handshake has failed already: connect again")
        self._has_failed = True
        outcome = self._challenge(token) if self._hello is None else self._verify(self._hello, token)
        self._has_failed = isinstance(outcome, int)  # nothing follows a verified proof either
        return outcome

    def _challenge(self, token: bytes) -> bytes:
        hello, identity = decode_hello(token), self._identity
        if hello.level_max < LEVEL_MIN or hello.level_min > LEVEL_MAX:
            raise UnsupportedVersion(
                f"broker {hello.broker_id} speaks levels {hello.level_min} to {hello.level_max} of the link protocol,"
                f" broker {identity.broker_id} speaks {LEVEL_MIN} to {LEVEL_MAX}: run versions of Penstock that can"
                " talk to each other"
            )
        _check_cluster(identity.cluster_id, hello.cluster_id, hello.broker_id)
        if hello.peer_id != identity.broker_id:
            raise UnknownBroker(
                f"broker {hello.broker_id} wants to reach broker {hello.peer_id}, but this is broker"
                f" {identity.broker_id}: check the advertised addresses of both"
            )
        if hello.broker_id == identity.broker_id or not self._is_member(hello.broker_id):
            raise UnknownBroker(
                f"broker {hello.broker_id} is not a registered peer of broker {identity.broker_id}: if it has just"
                " joined, it succeeds once the registration has arrived here"
            )
        level = min(hello.level_max, LEVEL_MAX)
        challenge = LinkChallenge(level, identity.broker_id, identity.cluster_id, self._nonce)
        self._hello = hello
        self._expected = _prove(identity.link_key, _INITIATOR, hello, challenge)
        proof = _prove(identity.link_key, _RESPONDER, hello, challenge)
        return encode_challenge(challenge._replace(proof=proof))

    def _verify(self, hello: LinkHello, token: bytes) -> int:
        assert self._expected is not None
        if not hmac.compare_digest(self._expected, bytes(token)):
            raise ClusterForbidden(
                f"the caller that claims to be broker {hello.broker_id} does not know the link key of this cluster"
            )
        return hello.broker_id


def _check_cluster(mine: str, theirs: str, their_id: int) -> None:
    if mine != theirs:
        raise WrongCluster(
            f"broker {their_id} belongs to cluster {theirs!r}, this broker to cluster {mine!r}: check the"
            " addresses of both, and the metadata log that each one uses"
        )
