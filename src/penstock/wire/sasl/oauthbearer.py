"""SASL OAUTHBEARER (RFC 7628): the client's initial response, and the error exchange. The host validates the token.

A rejected token is answered by a challenge in JSON that says so; the client confirms with one byte, and only then the
exchange fails. Clients of Kafka expect both steps.
"""

from __future__ import annotations

import json
import re

from penstock.core.authentication.failure import AuthFailureKind, NotAuthenticated
from penstock.core.authentication.principal import NAME_CHARS_MAX
from penstock.core.authentication.secret import Secret
from penstock.wire.sasl.sasl_name import decode_name
from penstock.wire.sasl.steps import (
    Authenticated,
    CheckBearer,
    CredentialsRejected,
    SaslChallenge,
    Verdict,
    check_authorization_id,
    decode_token,
    malformed,
    unexpected,
)

OAUTHBEARER = "OAUTHBEARER"
BEARER_BYTES_MAX = 32 * 1024
"""Tokens that list many groups have some kilobytes."""
OAUTH_BYTES_MAX = BEARER_BYTES_MAX + 4096
EXTENSIONS_MAX = 32

_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([A-Za-z0-9._~+/-]+=*)", re.ASCII)
_KEY = re.compile(r"[A-Za-z]{1,64}", re.ASCII)
_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+", re.ASCII)
_FAILED = "authentication failed: the bearer token is not valid"


class OauthBearerExchange:
    """One attempt. Implements SaslExchange. `scope` and `discovery_url` tell clients how to get a valid token."""

    def __init__(self, scope: str = "", discovery_url: str = "") -> None:
        self._hints = {"scope": scope, "openid-configuration": discovery_url}
        self._authorization_id = ""
        self._is_checking = False
        self._rejected: CredentialsRejected | None = None
        self._has_ended = False

    def receive(self, token: bytes) -> CheckBearer:
        """Raises NotAuthenticated; also once the client has confirmed that its token was rejected."""
        if self._rejected is not None:
            rejected, self._rejected = self._rejected, None
            raise NotAuthenticated(rejected.kind, _FAILED, f"{OAUTHBEARER}: {rejected.reason}")
        if self._has_ended:
            raise unexpected(OAUTHBEARER)
        self._has_ended = True
        self._authorization_id, bearer = decode_initial_response(token)
        self._is_checking = True
        return CheckBearer(bearer)

    def resolve(self, verdict: Verdict) -> SaslChallenge | Authenticated:
        """Raises NotAuthenticated if the client wants to act as another user than the token names."""
        if not self._is_checking:
            raise unexpected(OAUTHBEARER)
        self._is_checking = False
        if isinstance(verdict, CredentialsRejected):
            self._rejected = verdict
            error = {"status": "invalid_token", **{key: value for key, value in self._hints.items() if value}}
            return SaslChallenge(json.dumps(error, separators=(",", ":")).encode())
        check_authorization_id(OAUTHBEARER, self._authorization_id, verdict.user)
        return Authenticated(b"", verdict.user, verdict.expires_ms)


def decode_initial_response(token: bytes) -> tuple[str, Secret]:
    """Authorization id, empty if there is none, and bearer token. Raises NotAuthenticated.

    `n,[a=authorization id],^Aauth=Bearer token^A[key=value^A]…^A` with ^A for the byte 1. Other keys than `auth` carry
    information of the client, which nobody here relies on.
    """
    text = decode_token(OAUTHBEARER, token, OAUTH_BYTES_MAX)
    header, separator, rest = text.partition("\x01")
    parts = header.split(",")
    if not separator or len(parts) != 3 or parts[2]:
        raise malformed(OAUTHBEARER, "the header is not of the form n,[a=name],")
    if parts[0].startswith("p="):
        raise NotAuthenticated(AuthFailureKind.MECHANISM, f"{OAUTHBEARER}: channel binding is not supported")
    if parts[0] not in ("n", "y") or (parts[1] and not parts[1].startswith("a=")):
        raise malformed(OAUTHBEARER, "the header is not of the form n,[a=name],")
    if not rest.endswith("\x01\x01") and rest != "\x01":
        raise malformed(OAUTHBEARER, "it does not end with two bytes of value 1")
    found = _pairs(rest[:-2].split("\x01") if rest != "\x01" else [])
    bearer = _BEARER.fullmatch(found.get("auth", ""))
    if bearer is None or len(bearer[1]) > BEARER_BYTES_MAX:
        raise malformed(
            OAUTHBEARER, f"auth=Bearer with a token of at most {BEARER_BYTES_MAX} bytes is missing or invalid"
        )
    authorization_id = decode_name(OAUTHBEARER, parts[1][2:])
    if len(authorization_id) > NAME_CHARS_MAX:
        raise malformed(OAUTHBEARER, "the authorization id is too long")
    return authorization_id, Secret(bearer[1])


def _pairs(fields: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    if len(fields) > EXTENSIONS_MAX:
        raise malformed(OAUTHBEARER, f"it has more than {EXTENSIONS_MAX} fields")
    for field in fields:
        key, equals, value = field.partition("=")
        if not equals or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
            raise malformed(OAUTHBEARER, "a field is not of the form key=value")
        if key in found:
            raise malformed(OAUTHBEARER, "a field occurs twice")
        found[key] = value
    return found
