"""SASL PLAIN (RFC 4616): one token with user and password. Only for encrypted connections; the host checks both."""

from __future__ import annotations

from penstock.core.authentication.failure import INVALID_CREDENTIALS, NotAuthenticated
from penstock.core.authentication.scram import PASSWORD_BYTES_MAX, USER_BYTES_MAX
from penstock.core.authentication.secret import Secret
from penstock.wire.sasl.steps import (
    Authenticated,
    CheckPassword,
    CredentialsRejected,
    Verdict,
    check_authorization_id,
    check_user_name,
    decode_token,
    malformed,
    unexpected,
)

PLAIN = "PLAIN"
PLAIN_BYTES_MAX = 2 * USER_BYTES_MAX + PASSWORD_BYTES_MAX + 2


class PlainExchange:
    """One attempt. Implements SaslExchange."""

    def __init__(self) -> None:
        self._user: str | None = None
        self._has_ended = False

    def receive(self, token: bytes) -> CheckPassword:
        """`[authorization id] NUL user NUL password`. Raises NotAuthenticated."""
        if self._has_ended:
            raise unexpected(PLAIN)
        self._has_ended = True
        parts = decode_token(PLAIN, token, PLAIN_BYTES_MAX).split("\0")
        if len(parts) != 3:
            raise malformed(PLAIN, f"expected 3 parts separated by NUL, got {len(parts)}")
        authorization_id, user, password = parts
        check_user_name(PLAIN, user, USER_BYTES_MAX)
        if not password or len(password.encode()) > PASSWORD_BYTES_MAX:
            raise malformed(PLAIN, f"a password has 1 to {PASSWORD_BYTES_MAX} bytes")
        check_authorization_id(PLAIN, authorization_id, user)
        self._user = user
        return CheckPassword(user, Secret(password))

    def resolve(self, verdict: Verdict) -> Authenticated:
        """Raises NotAuthenticated."""
        user, self._user = self._user, None
        if user is None:
            raise unexpected(PLAIN)
        if isinstance(verdict, CredentialsRejected):
            raise NotAuthenticated(
                verdict.kind, INVALID_CREDENTIALS, f"PLAIN: user {user!r}: {verdict.reason}"
            )
        assert verdict.user == user, "the verdict is about another user"
        return Authenticated(b"", user, verdict.expires_ms)
