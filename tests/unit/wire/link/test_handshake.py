"""PENSTOCK-LINK: who is accepted, who is refused, on both sides, and what the refusal says."""

from __future__ import annotations

import pytest

from penstock.core.errors import (
    BrokerError,
    ClusterForbidden,
    InvalidRequest,
    Malformed,
    UnknownBroker,
    UnsupportedVersion,
    WrongCluster,
)
from penstock.wire.link import handshake
from penstock.wire.link.handshake import (
    PROOF_BYTES,
    TOKEN_BYTES_MAX,
    LinkIdentity,
    LinkInitiator,
    LinkResponder,
    decode_challenge,
    decode_hello,
    encode_challenge,
    encode_hello,
)

KEY, OTHER_KEY = b"k" * 32, b"o" * 32
ONE = LinkIdentity(1, "north", KEY)
TWO = LinkIdentity(2, "north", KEY)


def initiator(identity: LinkIdentity = ONE, peer_id: int = 2, nonce: bytes = b"i" * 32) -> LinkInitiator:
    return LinkInitiator(identity, peer_id, nonce)


def responder(
    identity: LinkIdentity = TWO, nonce: bytes = b"r" * 32, members: range = range(9)
) -> LinkResponder:
    return LinkResponder(identity, nonce, members.__contains__)


def challenge_of(side: LinkResponder, hello: bytes) -> bytes:
    challenge = side.receive(hello)
    assert isinstance(challenge, bytes)
    return challenge


def shake(one: LinkInitiator, two: LinkResponder) -> int:
    found = two.receive(one.answer(challenge_of(two, one.hello)))
    assert isinstance(found, int)
    return found


def test_brokers_of_one_cluster_accept_each_other() -> None:
    assert shake(initiator(), responder()) == 1


def test_no_token_contains_the_key_and_no_repr_does() -> None:
    one, two = initiator(), responder()
    challenge = challenge_of(two, one.hello)
    assert KEY not in one.hello + challenge + one.answer(challenge)
    assert repr(ONE) == "LinkIdentity(broker_id=1, cluster_id='north', link_key=…)"


@pytest.mark.parametrize(
    ("identity", "error", "words"),
    [
        (
            LinkIdentity(1, "south", KEY),
            WrongCluster,
            "broker 1 belongs to cluster 'south', this broker to cluster 'north'",
        ),
        (LinkIdentity(2, "north", KEY), UnknownBroker, "broker 2 is not a registered peer of broker 2"),
        (LinkIdentity(20, "north", KEY), UnknownBroker, "broker 20 is not a registered peer"),
    ],
)
def test_the_responder_refuses_a_hello(identity: LinkIdentity, error: type[BrokerError], words: str) -> None:
    with pytest.raises(error, match=words):
        responder().receive(initiator(identity).hello)


def test_the_responder_refuses_whoever_means_another_broker() -> None:
    with pytest.raises(UnknownBroker, match="wants to reach broker 3, but this is broker 2"):
        responder().receive(initiator(peer_id=3).hello)


def test_a_client_without_the_key_is_refused_by_the_responder() -> None:
    """It ignores what the responder proves."""
    impostor, two = initiator(ONE._replace(link_key=OTHER_KEY)), responder()
    challenge = challenge_of(two, impostor.hello)
    with pytest.raises(ClusterForbidden, match="does not know the link key"):
        impostor.answer(challenge)
    forged = handshake._prove(
        OTHER_KEY, handshake._INITIATOR, decode_hello(impostor.hello), decode_challenge(challenge)
    )
    with pytest.raises(ClusterForbidden, match="claims to be broker 1 does not know the link key"):
        two.receive(forged)


def test_a_listener_without_the_key_is_refused_by_the_initiator() -> None:
    one = initiator()
    with pytest.raises(ClusterForbidden, match="does not know the link key of cluster north"):
        one.answer(challenge_of(responder(TWO._replace(link_key=OTHER_KEY)), one.hello))


def test_the_initiator_refuses_another_broker_and_another_cluster() -> None:
    one = initiator()
    challenge = decode_challenge(challenge_of(responder(), one.hello))
    with pytest.raises(UnknownBroker, match="broker 3 listens there instead of broker 2"):
        one.answer(encode_challenge(challenge._replace(broker_id=3)))
    with pytest.raises(WrongCluster, match="broker 2 belongs to cluster 'south'"):
        one.answer(encode_challenge(challenge._replace(cluster_id="south")))


def test_a_proof_returned_to_its_sender_proves_nothing() -> None:
    """Reflection: the impostor sends the responder's own proof back."""
    one, two = initiator(), responder()
    challenge = decode_challenge(challenge_of(two, one.hello))
    with pytest.raises(ClusterForbidden):
        two.receive(challenge.proof)


def test_tokens_of_one_connection_are_worthless_on_another() -> None:
    one, two = initiator(), responder()
    challenge = challenge_of(two, one.hello)
    proof = one.answer(challenge)
    later = responder(nonce=b"s" * 32)
    challenge_of(later, one.hello)
    with pytest.raises(ClusterForbidden):
        later.receive(proof)
    with pytest.raises(ClusterForbidden):
        initiator(nonce=b"j" * 32).answer(challenge)


def test_a_relay_to_another_broker_fails() -> None:
    """An attacker that broker 1 connects to, instead of broker 2, forwards everything to broker 3."""
    three = responder(LinkIdentity(3, "north", KEY))
    with pytest.raises(UnknownBroker):
        three.receive(initiator().hello)


def test_levels_without_overlap_are_refused_by_both() -> None:
    one, two = initiator(), responder()
    hello = decode_hello(one.hello)
    with pytest.raises(UnsupportedVersion, match=r"broker 1 speaks levels 8 to 9 .* broker 2 speaks 1 to 1"):
        two.receive(encode_hello(hello._replace(level_min=8, level_max=9)))
    challenge = decode_challenge(challenge_of(responder(), one.hello))._replace(level=9, proof=b"")
    proof = handshake._prove(KEY, handshake._RESPONDER, hello, challenge)
    with pytest.raises(UnsupportedVersion, match="it chose level 9"):
        one.answer(encode_challenge(challenge._replace(proof=proof)))


def test_a_newer_broker_and_this_one_agree_on_the_level_of_this_one() -> None:
    hello = decode_hello(initiator().hello)._replace(level_max=7)
    assert decode_challenge(challenge_of(responder(), encode_hello(hello))).level == handshake.LEVEL_MAX


def test_a_handshake_has_one_attempt() -> None:
    two = responder()
    with pytest.raises(Malformed):
        two.receive(b"nonsense")
    with pytest.raises(InvalidRequest, match="connect again"):
        two.receive(initiator().hello)
    done = responder()
    one = initiator()
    shake(one, done)
    with pytest.raises(InvalidRequest):
        done.receive(one.hello)


@pytest.mark.parametrize("change", [b"", b"x"])
def test_a_token_of_another_length_is_malformed(change: bytes) -> None:
    hello = initiator().hello
    content = hello[:-1] if not change else hello + change
    with pytest.raises(Malformed):
        responder().receive(content)


@pytest.mark.parametrize(
    "content",
    [b"", b"x" * (TOKEN_BYTES_MAX + 1), b"XXXX" + initiator().hello[4:], bytes(PROOF_BYTES)],
    ids=["empty", "long", "magic", "short"],
)
def test_nonsense_is_malformed_on_both_sides(content: bytes) -> None:
    with pytest.raises(Malformed):
        responder().receive(content)
    with pytest.raises(Malformed):
        initiator().answer(content)


def test_levels_and_ids_have_a_range() -> None:
    hello = decode_hello(initiator().hello)
    for nonsense in (
        hello._replace(level_min=2, level_max=1),
        hello._replace(level_min=0),
        hello._replace(broker_id=-1),
    ):
        with pytest.raises(Malformed):
            responder().receive(encode_hello(nonsense))
