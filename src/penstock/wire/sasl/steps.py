"""What an exchange asks of its host after each token. Values only.

    step = exchange.receive(token)
    SaslChallenge      → send the token, wait for the next one
    CheckPassword  → check it off the loop, then exchange.resolve(verdict)
    CheckBearer    → validate it, then exchange.resolve(verdict)
    Authenticated  → send the token; the client is `user`

Every refusal is NotAuthenticated, and ends the exchange.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

from penstock.core.authentication.failure import AuthFailureKind, NotAuthenticated
from penstock.core.authentication.secret import Secret


class SaslChallenge(NamedTuple):
    """A token for the client, which must answer."""

    token: bytes


class CheckPassword(NamedTuple):
    """A user and a password in the clear. Checking it takes milliseconds of CPU."""

    user: str
    password: Secret


class CheckBearer(NamedTuple):
    """A bearer token. Validating it may take a fetch of keys."""

    bearer: Secret


class Authenticated(NamedTuple):
    """The client has proven that it is this user. The token is sent even if it is empty."""

    token: bytes
    user: str
    expires_ms: int | None = None
    """When the proof ends, in milliseconds since the epoch; None if it does not."""


SaslStep = SaslChallenge | CheckPassword | CheckBearer | Authenticated


class CredentialsAccepted(NamedTuple):
    """The verdict of the host: the credentials are those of this user."""

    user: str
    expires_ms: int | None = None


class CredentialsRejected(NamedTuple):
    """The verdict of the host: the credentials are refused. The reason is for the log."""

    reason: str
    kind: AuthFailureKind = AuthFailureKind.CREDENTIALS


Verdict = CredentialsAccepted | CredentialsRejected


class SaslExchange(Protocol):
    """One attempt to authenticate."""

    def receive(self, token: bytes) -> SaslStep:
        """Take a token of the client. Raises NotAuthenticated."""

    def resolve(self, verdict: Verdict) -> SaslStep:
        """Go on with the verdict on CheckPassword or CheckBearer. Raises NotAuthenticated."""


def malformed(mechanism: str, what: str) -> NotAuthenticated:
    """The refusal of bytes that do not follow the mechanism."""
    return NotAuthenticated(AuthFailureKind.MALFORMED, f"invalid {mechanism} message: {what}")


def unexpected(mechanism: str) -> NotAuthenticated:
    """The refusal of a message after the exchange has ended."""
    return NotAuthenticated(AuthFailureKind.STATE, f"the {mechanism} exchange has ended: connect again")


def decode_token(mechanism: str, token: bytes, bytes_max: int) -> str:
    """The token as text. Raises NotAuthenticated if it is too long or not UTF-8."""
    if len(token) > bytes_max:
        raise malformed(mechanism, f"{len(token)} bytes are over the limit of {bytes_max}")
    try:
        return token.decode()
    except UnicodeDecodeError:
        raise malformed(mechanism, "it is not UTF-8") from None


def check_user_name(mechanism: str, user: str, bytes_max: int) -> None:
    """Raises NotAuthenticated if nobody can have this name."""
    if not user or len(user.encode()) > bytes_max:
        raise malformed(mechanism, f"a user name has 1 to {bytes_max} bytes")
    if not user.isprintable():
        raise malformed(mechanism, "the user name has characters that cannot be printed")


def check_authorization_id(mechanism: str, authorization_id: str, user: str) -> None:
    """Raises NotAuthenticated if the client wants to act as somebody else."""
    if authorization_id and authorization_id != user:
        raise NotAuthenticated(
            AuthFailureKind.CREDENTIALS,
            f"{mechanism}: the authorization id must be empty or the user name",
            f"{mechanism}: user {user!r} asked to act as {authorization_id!r}",
        )
