"""The handshake of links: each side by itself, and at the door of a live broker.

Whatever comes, nobody becomes a broker without the key, on neither side.
"""

from __future__ import annotations

from random import Random
from typing import Any

from fuzz.door import live
from fuzz.target import Target
from penstock.core.errors import BrokerError
from penstock.wire.kafka import ApiKey, encode_request, messages
from penstock.wire.link.handshake import (
    MECHANISM,
    LinkIdentity,
    LinkInitiator,
    LinkResponder,
    decode_challenge,
    decode_hello,
    encode_challenge,
    encode_hello,
)

KEY, WRONG_KEY = b"k" * 32, b"w" * 32
NONCE = b"n" * 32


def initiator(key: bytes = KEY, cluster_id: str = "north") -> LinkInitiator:
    return LinkInitiator(LinkIdentity(1, cluster_id, key), 2, NONCE)


def responder(key: bytes = KEY) -> LinkResponder:
    return LinkResponder(LinkIdentity(2, "north", key), NONCE, lambda broker_id: broker_id < 9)


def make_tokens(rng: Random) -> bytes:
    """A hello, or a challenge of somebody who does not know the key."""
    hello = initiator(WRONG_KEY).hello
    challenge = responder(WRONG_KEY).receive(hello)
    assert isinstance(challenge, bytes)
    return rng.choice((hello, challenge))


def read_tokens(content: bytes) -> str:
    return f"{_read_hello(content)}, {_read_challenge(content)}"


def _read_hello(content: bytes) -> str:
    try:
        challenge = responder().receive(content)
        assert encode_hello(decode_hello(content)) == content
    except BrokerError as error:
        return type(error).__name__
    assert isinstance(challenge, bytes), "accepted without a proof"
    return "challenged"


def _read_challenge(content: bytes) -> str:
    try:
        assert encode_challenge(decode_challenge(content)) == content
        initiator().answer(content)
    except BrokerError as error:
        return type(error).__name__
    raise AssertionError("accepted without the key")


def make_handshake(rng: Random) -> bytes:
    """The calls of a broker that does not know the key, and one more behind them."""
    node = live().broker.identity
    one = LinkInitiator(LinkIdentity(node.node_id + 1, node.cluster_id, WRONG_KEY), node.node_id, NONCE)
    mechanism = rng.choice((MECHANISM, MECHANISM, "PLAIN", ""))
    calls: list[tuple[ApiKey, int, Any]] = [
        (ApiKey.SASL_HANDSHAKE, rng.randint(0, 1), messages.SaslHandshakeRequest(mechanism=mechanism))
    ]
    for token in (one.hello, rng.randbytes(32), b"")[: rng.randint(0, 3)]:
        request = messages.SaslAuthenticateRequest(auth_bytes=token)
        calls.append((ApiKey.SASL_AUTHENTICATE, rng.randint(0, 2), request))
    if rng.random() < 0.2:
        rng.shuffle(calls)
    calls.append((ApiKey.API_VERSIONS, 0, messages.ApiVersionsRequest()))
    return b"".join(encode_request(key, version, 7, "fuzz", body) for key, version, body in calls)


def read_handshake(content: bytes) -> str:
    return live().read(content, "link")


TARGETS = (
    Target("link-token", make_tokens, read_tokens),
    Target("link-door", make_handshake, read_handshake),
)
