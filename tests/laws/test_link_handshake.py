"""Laws of the link handshake: tokens survive their bytes, and whatever is changed on the way makes it fail."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from penstock.core.errors import BrokerError
from penstock.wire.link.handshake import (
    LinkChallenge,
    LinkHello,
    LinkIdentity,
    LinkInitiator,
    LinkResponder,
    decode_challenge,
    decode_hello,
    encode_challenge,
    encode_hello,
)

KEYS = st.binary(min_size=32, max_size=32)
IDS = st.integers(0, 2**31 - 1)
LEVELS = st.integers(1, 65_535)
NAMES = st.text(max_size=60)
HELLOS = st.builds(
    lambda levels, *rest: LinkHello(min(levels), max(levels), *rest),
    st.tuples(LEVELS, LEVELS),
    IDS,
    IDS,
    NAMES,
    KEYS,
)
CHALLENGES = st.builds(LinkChallenge, LEVELS, IDS, NAMES, KEYS, KEYS)


@given(HELLOS, CHALLENGES)
def test_tokens_survive_their_bytes(hello: LinkHello, challenge: LinkChallenge) -> None:
    assert decode_hello(encode_hello(hello)) == hello
    assert decode_challenge(encode_challenge(challenge)) == challenge


@given(KEYS, KEYS, st.tuples(KEYS, KEYS), st.tuples(IDS, IDS), NAMES, NAMES)
def test_exactly_equal_keys_and_clusters_are_accepted(
    key: bytes, other_key: bytes, nonces: tuple[bytes, bytes], ids: tuple[int, int], cluster: str, other: str
) -> None:
    one, two = ids
    initiator = LinkInitiator(LinkIdentity(one, cluster, key), two, nonces[0])
    responder = LinkResponder(LinkIdentity(two, other, other_key), nonces[1], lambda broker_id: True)
    try:
        challenge = responder.receive(initiator.hello)
        assert isinstance(challenge, bytes)
        accepted = responder.receive(initiator.answer(challenge)) == one
    except BrokerError:
        accepted = False
    assert accepted == (key == other_key and cluster == other and one != two)


@given(st.integers(0, 2), st.integers(0), st.integers(1, 255), KEYS)
def test_a_changed_byte_in_any_token_is_noticed(which: int, at: int, change: int, key: bytes) -> None:
    """By one of the two before the responder accepts anybody."""

    def pass_on(number: int, token: bytes) -> bytes:
        if number != which:
            return token
        changed = bytearray(token)
        changed[at % len(changed)] ^= change
        return bytes(changed)

    initiator = LinkInitiator(LinkIdentity(1, "north", key), 2, b"i" * 32)
    responder = LinkResponder(LinkIdentity(2, "north", key), b"r" * 32, lambda broker_id: True)
    try:
        challenge = responder.receive(pass_on(0, initiator.hello))
        assert isinstance(challenge, bytes)
        proof = initiator.answer(pass_on(1, challenge))
        accepted = responder.receive(pass_on(2, proof))
    except BrokerError:
        return
    raise AssertionError(f"the responder accepted broker {accepted!r}")


@given(st.lists(st.binary(max_size=600), max_size=4), KEYS)
def test_nobody_gets_in_without_the_key(tokens: list[bytes], key: bytes) -> None:
    responder = LinkResponder(LinkIdentity(2, "north", key), b"r" * 32, lambda broker_id: True)
    for token in tokens:
        with contextlib.suppress(BrokerError):
            assert not isinstance(responder.receive(token), int)
