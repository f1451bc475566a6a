"""SCRAM credentials: what a broker stores instead of a password, and how it is derived. RFC 5802, RFC 7677.

Names and passwords are used as UTF-8 without SASLprep, as in Kafka: a client that normalizes must do it on both sides.
"""

from __future__ import annotations

import hashlib
import hmac
from enum import StrEnum
from typing import NamedTuple, Protocol

from penstock.core.authentication.secret import Secret
from penstock.core.errors import InvalidRequest

ITERATIONS_MIN = 4096
"""The least that RFC 7677 allows."""
ITERATIONS_MAX = 16384
"""Kafka's limit: every login costs the client this many rounds."""
ITERATIONS_DEFAULT = 8192
SALT_BYTES = 24
SALT_BYTES_MIN = 8
SALT_BYTES_MAX = 256
USER_BYTES_MAX = 255
PASSWORD_BYTES_MAX = 1024

_CLIENT_KEY, _SERVER_KEY = b"Client Key", b"Server Key"
_DECOY = b"penstock scram decoy"


class ScramMechanism(StrEnum):
    """The mechanisms by their SASL names."""

    SHA_256 = "SCRAM-SHA-256"
    SHA_512 = "SCRAM-SHA-512"

    @property
    def digest(self) -> str:
        """The name of the hash function in hashlib."""
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"

    @property
    def key_bytes(self) -> int:
        return 32 if self is ScramMechanism.SHA_256 else 64


class ScramCredential(NamedTuple):
    """What the broker stores. It is enough to test passwords offline and to impersonate the broker, not to log in."""

    mechanism: ScramMechanism
    iterations: int
    salt: bytes
    stored_key: bytes
    server_key: bytes

    def __repr__(self) -> str:
        """Keys must not end up in a log."""
        return f"ScramCredential({self.mechanism.value}, iterations={self.iterations}, …)"

    def is_password(self, password: Secret) -> bool:
        """Derive the key of a password in the clear, for PLAIN and HTTP Basic. Takes milliseconds: not on a loop."""
        candidate = derive_credential(self.mechanism, password, self.salt, self.iterations)
        return hmac.compare_digest(candidate.stored_key, self.stored_key)


class ScramUsers(Protocol):
    """The users of a cluster, as far as authentication needs them."""

    def credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None: ...


def derive_credential(
    mechanism: ScramMechanism, password: Secret, salt: bytes, iterations: int
) -> ScramCredential:
    """The credential of a password. Takes milliseconds: not on a loop."""
    salted = hashlib.pbkdf2_hmac(mechanism.digest, password.reveal(), salt, iterations)
    return _from_salted(mechanism, salted, salt, iterations)


def credential_of_salted(
    mechanism: ScramMechanism, salted_password: bytes, salt: bytes, iterations: int
) -> ScramCredential:
    """The credential of a password that the client has salted, as AlterUserScramCredentials sends it. Raises
    InvalidRequest."""
    if len(salted_password) != mechanism.key_bytes:
        raise InvalidRequest(
            f"the salted password for {mechanism.value} has {len(salted_password)} bytes, expected"
            f" {mechanism.key_bytes}"
        )
    credential = _from_salted(mechanism, salted_password, salt, iterations)
    check_credential(credential)
    return credential


def check_credential(credential: ScramCredential) -> None:
    """Raises InvalidRequest if a value from outside is out of bounds."""
    name, size = credential.mechanism.value, credential.mechanism.key_bytes
    if not ITERATIONS_MIN <= credential.iterations <= ITERATIONS_MAX:
        raise InvalidRequest(
            f"{name}: {credential.iterations} iterations are not from {ITERATIONS_MIN} to {ITERATIONS_MAX}"
        )
    if not SALT_BYTES_MIN <= len(credential.salt) <= SALT_BYTES_MAX:
        raise InvalidRequest(
            f"{name}: a salt of {len(credential.salt)} bytes is not from {SALT_BYTES_MIN} to {SALT_BYTES_MAX} bytes"
        )
    if len(credential.stored_key) != size or len(credential.server_key) != size:
        raise InvalidRequest(f"{name}: stored key and server key must have {size} bytes each")


def _from_salted(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    digest = mechanism.digest
    stored_key = hashlib.new(digest, hmac.digest(salted, _CLIENT_KEY, digest)).digest()
    return ScramCredential(
        mechanism, iterations, bytes(salt), stored_key, hmac.digest(salted, _SERVER_KEY, digest)
    )


class FoundCredential(NamedTuple):
    """A credential to answer with. If the user is unknown it is a decoy, which no password matches."""

    credential: ScramCredential
    is_known: bool


class CredentialLookup:
    """Finds credentials such that nobody can tell by salt, iterations or effort whether a user exists.

    `decoy_key` must be the same on all brokers and after a restart: salts that differ would give a decoy away.
    """

    def __init__(
        self,
        users: ScramUsers,
        decoy_key: bytes,
        *,
        iterations: int = ITERATIONS_DEFAULT,
        salt_bytes: int = SALT_BYTES,
    ) -> None:
        assert len(decoy_key) >= 16, "the decoy key is too short"
        self._users = users
        self._decoy_key = decoy_key
        self._iterations = iterations
        self._salt_bytes = salt_bytes

    def find(self, user: str, mechanism: ScramMechanism) -> FoundCredential:
        """The credential of a user, or a decoy that is the same at every attempt."""
        decoy = self._decoy(user, mechanism)  # always made, so that both cases take the same time
        found = self._users.credential(user, mechanism)
        return FoundCredential(decoy, False) if found is None else FoundCredential(found, True)

    def is_password(self, user: str, password: Secret) -> bool:
        """Check a password in the clear, with the first mechanism that the user has. Takes milliseconds: not on a
        loop. Users that have both mechanisms and unknown users take the same time."""
        found, weaker = (
            self.find(user, mechanism) for mechanism in (ScramMechanism.SHA_512, ScramMechanism.SHA_256)
        )
        if weaker.is_known and not found.is_known:
            found = weaker
        matches = found.credential.is_password(password)
        return matches and found.is_known

    def _decoy(self, user: str, mechanism: ScramMechanism) -> ScramCredential:
        seed = hmac.digest(
            self._decoy_key, b"%s\0%s\0%s" % (_DECOY, mechanism.encode(), user.encode()), "sha512"
        )
        size = mechanism.key_bytes
        # The keys need not be secret: nobody can log in as an unknown user, whatever the proof.
        return ScramCredential(
            mechanism, self._iterations, _stretch(seed, self._salt_bytes), seed[:size], seed[:size]
        )


def _stretch(seed: bytes, count: int) -> bytes:
    return hashlib.shake_256(seed).digest(count)
