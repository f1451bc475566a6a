"""What AlterUserScramCredentials may set: names, iterations, salts and keys within bounds, with Kafka's messages."""

from __future__ import annotations

from penstock.core.authentication.scram import (
    ITERATIONS_MAX,
    ITERATIONS_MIN,
    SALT_BYTES_MAX,
    SALT_BYTES_MIN,
    USER_BYTES_MAX,
    ScramMechanism,
)
from penstock.core.security.entry_error import EntryError, EntryErrorCode

RESERVED_USERS = frozenset({"*", "ANONYMOUS"})
"""Names with a meaning of their own in ACLs."""

SCRAM_MECHANISMS = {1: ScramMechanism.SHA_256, 2: ScramMechanism.SHA_512}
"""The mechanisms by their number in Kafka's requests."""


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
    if iterations < ITERATIONS_MIN:
        return _unacceptable("Too few iterations")
    if iterations > ITERATIONS_MAX:
        return _unacceptable("Too many iterations")
    return None


def check_salt(salt: bytes) -> EntryError | None:
    if not SALT_BYTES_MIN <= len(salt) <= SALT_BYTES_MAX:
        return _unacceptable(f"The salt has {len(salt)} bytes, not {SALT_BYTES_MIN} to {SALT_BYTES_MAX}")
    return None


def check_salted_password(mechanism: ScramMechanism, salted_password: bytes) -> EntryError | None:
    if len(salted_password) != mechanism.key_bytes:
        return _unacceptable(
            f"The salted password for {mechanism.value} has {len(salted_password)} bytes, not {mechanism.key_bytes}"
        )
    return None


def _unacceptable(message: str) -> EntryError:
    return EntryError(EntryErrorCode.UNACCEPTABLE_CREDENTIAL, message)
