"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), server side, without channel binding.

    client → n,,n=user,r=client nonce
    server → r=client nonce + server nonce,s=salt,i=iterations
    client → c=biws,r=both nonces,p=proof
    server → v=signature

The server computes two HMACs and one hash; only the client derives the key from the password. An unknown user gets a
challenge like any other, and is refused with its proof.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import NamedTuple

from penstock.core.authentication.failure import INVALID_CREDENTIALS, AuthFailureKind, NotAuthenticated
from penstock.core.authentication.scram import (
    USER_BYTES_MAX,
    CredentialLookup,
    FoundCredential,
    ScramMechanism,
)
from penstock.wire.sasl.sasl_name import decode_name
from penstock.wire.sasl.steps import (
    Authenticated,
    SaslChallenge,
    Verdict,
    check_authorization_id,
    check_user_name,
    decode_token,
    malformed,
    unexpected,
)

SCRAM_BYTES_MAX = 4096
NONCE_CHARS_MAX = 256
NONCE_CHARS_MIN = 8
SERVER_NONCE_CHARS_MIN = 18
_TOKEN_AUTH = "tokenauth"


class ScramFirst(NamedTuple):
    """The client's first message. `header` and `bare` are repeated in what the proof signs."""

    header: str
    bare: str
    user: str
    nonce: str


class ScramFinal(NamedTuple):
    """The client's second message."""

    without_proof: str
    header: str
    """The first message's header in base64, as the client repeats it."""
    nonce: str
    proof: bytes


class ScramExchange:
    """One attempt. Implements SaslExchange. `nonce` is random and used once."""

    def __init__(self, mechanism: ScramMechanism, lookup: CredentialLookup, nonce: str) -> None:
        assert len(nonce) >= SERVER_NONCE_CHARS_MIN and _is_nonce(nonce), "not a nonce"
        self._mechanism = mechanism
        self._lookup = lookup
        self._nonce = nonce
        self._first: ScramFirst | None = None
        self._found: FoundCredential | None = None
        self._challenge = ""
        self._has_ended = False

    def receive(self, token: bytes) -> SaslChallenge | Authenticated:
        """Raises NotAuthenticated."""
        if self._has_ended:
            raise unexpected(self._mechanism)
        self._has_ended = True  # unless this token is answered by a challenge
        if self._first is None:
            return self._answer(decode_first(self._mechanism, token))
        return self._verify(self._first, decode_final(self._mechanism, token))

    def resolve(self, verdict: Verdict) -> Authenticated:
        """SCRAM asks its host for nothing."""
        raise unexpected(self._mechanism)

    def _answer(self, first: ScramFirst) -> SaslChallenge:
        self._first = first
        self._found = found = self._lookup.find(first.user, self._mechanism)
        self._nonce = first.nonce + self._nonce
        salt = base64.b64encode(found.credential.salt).decode()
        self._challenge = f"r={self._nonce},s={salt},i={found.credential.iterations}"
        self._has_ended = False
        return SaslChallenge(self._challenge.encode())

    def _verify(self, first: ScramFirst, final: ScramFinal) -> Authenticated:
        assert self._found is not None
        if final.header != base64.b64encode(first.header.encode()).decode():
            raise malformed(self._mechanism, "the channel binding differs from that of the first message")
        if not hmac.compare_digest(final.nonce.encode(), self._nonce.encode()):
            raise NotAuthenticated(
                AuthFailureKind.CREDENTIALS,
                INVALID_CREDENTIALS,
                f"{self._mechanism}: user {first.user!r} repeated another nonce than it was given",
            )
        (credential, is_known), digest = self._found, self._mechanism.digest
        signed = f"{first.bare},{self._challenge},{final.without_proof}".encode()
        client_key = _xor(final.proof, hmac.digest(credential.stored_key, signed, digest))
        is_proof = hmac.compare_digest(hashlib.new(digest, client_key).digest(), credential.stored_key)
        signature = hmac.digest(credential.server_key, signed, digest)
        if not (is_proof and is_known):
            what = "wrong password" if is_known else "unknown user"
            raise NotAuthenticated(
                AuthFailureKind.CREDENTIALS,
                INVALID_CREDENTIALS,
                f"{self._mechanism}: {what}, user {first.user!r}",
            )
        return Authenticated(b"v=" + base64.b64encode(signature), first.user)


# -- messages


def decode_first(mechanism: str, token: bytes) -> ScramFirst:
    """`n,[a=authorization id],n=user,r=nonce[,extensions]`. Raises NotAuthenticated."""
    text = decode_token(mechanism, token, SCRAM_BYTES_MAX)
    parts = text.split(",", 2)
    if len(parts) != 3:
        raise malformed(mechanism, "the first message has no header")
    flag, authorization_id, bare = parts
    if flag.startswith("p="):
        raise NotAuthenticated(
            AuthFailureKind.MECHANISM,
            f"{mechanism}: channel binding is not supported; use the mechanism without -PLUS",
        )
    if flag not in ("n", "y"):
        raise malformed(mechanism, "the channel binding flag is not n or y")
    fields = bare.split(",")
    if fields[0].startswith("m="):
        raise NotAuthenticated(
            AuthFailureKind.MECHANISM, f"{mechanism}: mandatory extensions are not supported"
        )
    if len(fields) < 2 or not fields[0].startswith("n=") or not fields[1].startswith("r="):
        raise malformed(mechanism, "the first message must have the user name (n=) and a nonce (r=)")
    user, nonce = decode_name(mechanism, fields[0][2:]), fields[1][2:]
    check_user_name(mechanism, user, USER_BYTES_MAX)
    if not NONCE_CHARS_MIN <= len(nonce) <= NONCE_CHARS_MAX or not _is_nonce(nonce):
        raise malformed(mechanism, f"a nonce has {NONCE_CHARS_MIN} to {NONCE_CHARS_MAX} printable characters")
    if authorization_id:
        if not authorization_id.startswith("a="):
            raise malformed(mechanism, "the authorization id does not start with a=")
        check_authorization_id(mechanism, decode_name(mechanism, authorization_id[2:]), user)
    _check_extensions(mechanism, fields[2:])
    return ScramFirst(f"{flag},{authorization_id},", bare, user, nonce)


def decode_final(mechanism: ScramMechanism, token: bytes) -> ScramFinal:
    """`c=header in base64,r=nonce[,extensions],p=proof`. Raises NotAuthenticated."""
    text = decode_token(mechanism, token, SCRAM_BYTES_MAX)
    without_proof, has_proof, proof_text = text.rpartition(",p=")
    fields = without_proof.split(",")
    if not has_proof or len(fields) < 2 or not fields[0].startswith("c=") or not fields[1].startswith("r="):
        raise malformed(
            mechanism, "the final message must have channel binding (c=), nonce (r=) and proof (p=)"
        )
    try:
        proof = base64.b64decode(proof_text.encode(), validate=True)
    except binascii.Error:
        raise malformed(mechanism, "the proof is not base64") from None
    if base64.b64encode(proof) != proof_text.encode():
        raise malformed(mechanism, "the proof is not canonical base64")
    if len(proof) != mechanism.key_bytes:
        raise malformed(mechanism, f"the proof has {len(proof)} bytes, expected {mechanism.key_bytes}")
    _check_extensions(mechanism, fields[2:])
    return ScramFinal(without_proof, fields[0][2:], fields[1][2:], proof)


def _check_extensions(mechanism: str, fields: list[str]) -> None:
    """Optional extensions are ignored, as the RFC asks; Kafka's delegation tokens are refused by name."""
    for field in fields:
        name, equals, value = field.partition("=")
        if not equals or not value or not (name.isascii() and name.isalpha()):
            raise malformed(mechanism, "an extension is not of the form name=value")
        if name == _TOKEN_AUTH:
            raise NotAuthenticated(
                AuthFailureKind.MECHANISM, f"{mechanism}: delegation tokens ({_TOKEN_AUTH}) are not supported"
            )
        if name == "m":
            raise NotAuthenticated(
                AuthFailureKind.MECHANISM, f"{mechanism}: mandatory extensions are not supported"
            )


def _is_nonce(text: str) -> bool:
    return all("!" <= char <= "~" and char != "," for char in text)


def _xor(left: bytes, right: bytes) -> bytes:
    return (int.from_bytes(left) ^ int.from_bytes(right)).to_bytes(len(right))
