"""Proofs of the metadata protocol: bound to the secret, to both first messages, and to their sender."""

from __future__ import annotations

from penstock.wire.metadata.frames import Challenge, Hello
from penstock.wire.metadata.handshake import is_proof, prove_broker, prove_coordinator

SECRET = bytes(range(32))
HELLO = Hello(1, 4, "c", b"n" * 32)
CHALLENGE = Challenge(1, "c", b"m" * 32, b"")


def test_a_proof_holds_for_one_secret_one_connection_and_one_sender() -> None:
    proof = prove_broker(SECRET, HELLO, CHALLENGE)
    assert is_proof(prove_broker(SECRET, HELLO, CHALLENGE._replace(proof=b"any")), proof)
    others = [
        prove_coordinator(SECRET, HELLO, CHALLENGE),
        prove_broker(bytes(32), HELLO, CHALLENGE),
        prove_broker(SECRET, HELLO._replace(nonce=b"x" * 32), CHALLENGE),
        prove_broker(SECRET, HELLO._replace(broker_id=5), CHALLENGE),
        prove_broker(SECRET, HELLO, CHALLENGE._replace(nonce=b"x" * 32)),
        prove_broker(SECRET, HELLO, CHALLENGE._replace(cluster_id="d")),
        b"",
    ]
    assert not any(is_proof(one, proof) for one in others)
