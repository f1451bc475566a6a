"""How a broker and the coordinator prove to each other that they know the cluster's secret. No I/O.

Each proof is a keyed hash over both first messages, nonces included, under a label that names its sender. The secret is
never sent; a proof cannot be replayed on another connection, nor returned to its sender.
"""

from __future__ import annotations

import hmac
from hashlib import sha256

from penstock.wire.metadata.frames import Challenge, Hello, encode

SECRET_BYTES = 32
_COORDINATOR, _BROKER = b"penstock metadata coordinator", b"penstock metadata broker"


def prove_coordinator(secret: bytes, hello: Hello, challenge: Challenge) -> bytes:
    """The coordinator's proof, sent in the challenge."""
    return _proof(secret, _COORDINATOR, hello, challenge)


def prove_broker(secret: bytes, hello: Hello, challenge: Challenge) -> bytes:
    """The broker's proof, in answer to the challenge."""
    return _proof(secret, _BROKER, hello, challenge)


def is_proof(expected: bytes, found: bytes) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(expected, found)


def _proof(secret: bytes, label: bytes, hello: Hello, challenge: Challenge) -> bytes:
    stated = (label, encode(0, hello), encode(0, challenge._replace(proof=b"")))
    return hmac.new(secret, b"".join(stated), sha256).digest()
