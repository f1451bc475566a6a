"""SCRAM credentials: derived as the RFC does, bounded, and decoys for unknown users."""

from __future__ import annotations

import base64
import hashlib

import pytest

from penstock.core.authentication.scram import (
    ITERATIONS_DEFAULT,
    SALT_BYTES,
    CredentialLookup,
    ScramMechanism,
    check_credential,
    credential_of_salted,
    derive_credential,
)
from penstock.core.authentication.secret import Secret
from penstock.core.errors import InvalidRequest
from security_samples import LOOKUP, SALT, SampleUsers

SHA_256, SHA_512 = ScramMechanism.SHA_256, ScramMechanism.SHA_512


def test_the_keys_are_those_of_rfc_7677() -> None:
    found = derive_credential(SHA_256, Secret("pencil"), base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ=="), 4096)
    assert base64.b64encode(found.stored_key) == b"WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY="
    assert base64.b64encode(found.server_key) == b"wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU="


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_a_salted_password_gives_the_same_credential(mechanism: ScramMechanism) -> None:
    salted = hashlib.pbkdf2_hmac(mechanism.digest, b"wonderland", SALT, 4096)
    found = credential_of_salted(mechanism, salted, SALT, 4096)
    assert found == derive_credential(mechanism, Secret("wonderland"), SALT, 4096)
    assert found.is_password(Secret("wonderland"))
    assert not found.is_password(Secret("Wonderland"))
    assert base64.b64encode(found.stored_key).decode() not in repr(found)
    assert repr(found.stored_key) not in repr(found)


@pytest.mark.parametrize(
    ("size", "salt", "iterations", "words"),
    [
        (31, SALT, 4096, "has 31 bytes, expected 32"),
        (32, b"short", 4096, "a salt of 5 bytes"),
        (32, b"s" * 257, 4096, "a salt of 257 bytes"),
        (32, SALT, 4095, "4095 iterations are not from 4096"),
        (32, SALT, 16385, "16385 iterations"),
    ],
)
def test_values_out_of_bounds_are_refused(size: int, salt: bytes, iterations: int, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        credential_of_salted(SHA_256, b"p" * size, salt, iterations)


def test_keys_of_another_size_are_refused() -> None:
    found = derive_credential(SHA_256, Secret("x"), SALT, 4096)
    with pytest.raises(InvalidRequest, match="must have 32 bytes"):
        check_credential(found._replace(server_key=b"short"))


def test_unknown_users_get_the_same_decoy_every_time_and_on_every_broker() -> None:
    first = LOOKUP.find("mallory", SHA_256)
    again = CredentialLookup(SampleUsers({}), b"d" * 32).find("mallory", SHA_256)
    assert first == again
    assert not first.is_known
    assert first.credential.iterations == ITERATIONS_DEFAULT
    assert len(first.credential.salt) == SALT_BYTES
    check_credential(first.credential)


def test_decoys_differ_by_user_mechanism_and_key() -> None:
    others = CredentialLookup(SampleUsers({}), b"e" * 32)
    salts = [
        LOOKUP.find("mallory", SHA_256),
        LOOKUP.find("mallory", SHA_512),
        LOOKUP.find("mallori", SHA_256),
        others.find("mallory", SHA_256),
    ]
    assert len({one.credential.salt for one in salts}) == 4


def test_passwords_in_the_clear_are_checked() -> None:
    assert LOOKUP.is_password("alice", Secret("wonderland"))
    assert not LOOKUP.is_password("alice", Secret("wonder"))
    assert not LOOKUP.is_password("mallory", Secret("wonderland"))


class OneMechanism(SampleUsers):
    """Users with a single mechanism, as Kafka's tools may create them."""

    def credential(self, user, mechanism):  # type: ignore[no-untyped-def]
        return super().credential(user, mechanism) if mechanism is SHA_256 else None


def test_a_user_with_one_mechanism_can_send_a_password() -> None:
    lookup = CredentialLookup(OneMechanism({"bob": "builder"}), b"d" * 32)
    assert lookup.is_password("bob", Secret("builder"))
    assert not lookup.is_password("bob", Secret("b"))
