"""SCRAM credentials as the cluster stores them: derived keys instead of passwords. Runs no exchange.

The fields and their order are those of a credential in the exchange; mechanisms are their SASL names.
"""

from __future__ import annotations

import hashlib
import hmac
from enum import StrEnum
from typing import NamedTuple

from penstock.core.security.entry_error import EntryError, EntryErrorCode
from penstock.core.security.security_limits import (
    SCRAM_ITERATIONS_MAX,
    SCRAM_ITERATIONS_MIN,
    SCRAM_SALT_BYTES_MAX,
    SCRAM_SALT_BYTES_MIN,
    USER_BYTES_MAX,
)

RESERVED_USERS = frozenset({"*", "ANONYMOUS"})
"""Names with a meaning of their own in ACLs."""

_CLIENT_KEY, _SERVER_KEY = b"Client Key", b"Server Key"


class ScramKind(StrEnum):
    """The mechanisms, by their SASL names."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def number(self) -> int:
        """The mechanism in Kafka's requests."""
        return 1 if self is ScramKind.SHA_256 else 2

    @property
    def digest(self) -> str:
        """The name of the hash function in hashlib."""
        return "sha256" if self is ScramKind.SHA_256 else "sha512"

    @property
    def key_bytes(self) -> int:
        return 32 if self is ScramKind.SHA_256 else 64


SCRAM_KINDS = {one.number: one for one in ScramKind}
"""The mechanisms by their number in Kafka's requests."""


class ScramRecord(NamedTuple):
    """What is stored for a user and a mechanism. Whoever reads it can test passwords and impersonate the broker."""

    mechanism: ScramKind
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        """Events may be logged; keys must not be."""
        return f"ScramRecord({self.mechanism.value}, iterations={self.iterations}, …)"


def record_of_salted(
    mechanism: ScramKind, iterations: int, salt: bytes, salted_password: bytes
) -> ScramRecord:
    """The record for a password that the client has salted and hashed."""
    client_key = hmac.digest(salted_password, _CLIENT_KEY, mechanism.digest)
    stored_key = hashlib.new(mechanism.digest, client_key).digest()
    server_key = hmac.digest(salted_password, _SERVER_KEY, mechanism.digest)
    return ScramRecord(mechanism, iterations, salt, stored_key, server_key)


def check_user(user: str) -> EntryError | None:
    """The reason why a user of this name cannot have credentials; None if it can."""
    if not user:
        return _unacceptable("Username must not be empty")
    if len(user.encode()) > USER_BYTES_MAX:
        return _unacceptable(f"Username must not be longer than {USER_BYTES_MAX} bytes")
    if not user.isprintable() or user != user.strip():
        return _unacceptable("Username must not have control characters, or spaces at its ends")
    if user in RESERVED_USERS:
        return _unacceptable(f"Username {user!r} is reserved: it has a meaning of its own in ACLs")
    return None


def check_iterations(iterations: int) -> EntryError | None:
    if iterations < SCRAM_ITERATIONS_MIN:
        return _unacceptable("Too few iterations")
    if iterations > SCRAM_ITERATIONS_MAX:
        return _unacceptable("Too many iterations")
    return None


def check_salt(salt: bytes) -> EntryError | None:
    if not SCRAM_SALT_BYTES_MIN <= len(salt) <= SCRAM_SALT_BYTES_MAX:
        return _unacceptable(
            f"The salt has {len(salt)} bytes, not {SCRAM_SALT_BYTES_MIN} to {SCRAM_SALT_BYTES_MAX}"
        )
    return None


def check_salted_password(mechanism: ScramKind, salted_password: bytes) -> EntryError | None:
    if len(salted_password) != mechanism.key_bytes:
        return _unacceptable(
            f"The salted password for {mechanism.value} has {len(salted_password)} bytes, not {mechanism.key_bytes}"
        )
    return None


def _unacceptable(message: str) -> EntryError:
    return EntryError(EntryErrorCode.UNACCEPTABLE_CREDENTIAL, message)
