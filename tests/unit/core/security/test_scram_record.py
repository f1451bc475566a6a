"""Stored SCRAM credentials: the derivation of RFC 5802, and secrets that are not shown."""

from __future__ import annotations

import base64
import hashlib
import hmac

from penstock.core.security.scram_record import SCRAM_KINDS, ScramKind, check_user, record_of_salted


def test_keys_are_those_of_the_exchange_in_rfc_7677() -> None:
    """The client's proof in the RFC verifies against the stored key, and the server's signature is the RFC's."""
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")
    salted = hashlib.pbkdf2_hmac("sha256", b"pencil", salt, 4096)
    record = record_of_salted(ScramKind.SHA_256, 4096, salt, salted)
    nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    message = (
        f"n=user,r=rOprNGfwEbeRWgbNEkqO,r={nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096,c=biws,r={nonce}".encode()
    )
    signature = hmac.digest(record.stored_key, message, "sha256")
    proof = base64.b64decode("dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    client_key = bytes(one ^ other for one, other in zip(proof, signature, strict=True))
    assert hashlib.sha256(client_key).digest() == record.stored_key
    assert (
        base64.b64encode(hmac.digest(record.server_key, message, "sha256"))
        == b"6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )


def test_secrets_are_not_shown() -> None:
    record = record_of_salted(ScramKind.SHA_512, 8192, b"salt" * 4, b"p" * 64)
    assert repr(record) == str(record) == "ScramRecord(SCRAM-SHA-512, iterations=8192, …)"


def test_mechanisms_have_kafkas_numbers_and_sasl_names() -> None:
    assert SCRAM_KINDS == {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}


def test_user_names_that_mislead_are_refused() -> None:
    for name in ("", "*", "ANONYMOUS", " alice", "al\nice", "é" * 128):
        assert check_user(name) is not None, name
    for name in ("alice", "CN=alice,O=example", "é" * 127):
        assert check_user(name) is None, name
