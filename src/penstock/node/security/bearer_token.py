"""Validates JSON Web Tokens (RFC 7519): signature, issuer, audience, times, user. Anything missing is a refusal.

Only the signature is left to the library. Headers that point to keys elsewhere (`jku`, `x5u`, `jwk`) are never
followed, and critical extensions are refused.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from penstock.core.authentication.failure import NotAuthenticated
from penstock.core.authentication.principal import user_principal
from penstock.core.authentication.secret import Secret
from penstock.core.errors import InvalidConfig
from penstock.node.security.key_set import ALGORITHMS, KEY_ID_CHARS_MAX, KeySet
from penstock.wire.sasl.oauthbearer import BEARER_BYTES_MAX
from penstock.wire.sasl.steps import CredentialsAccepted

LEEWAY_S_MAX = 300
AUDIENCES_MAX = 100
_TYPES = (None, "jwt", "at+jwt", "application/jwt", "application/at+jwt")


class TokenRejected(Exception):
    """The token is not accepted. The message is for the log: it repeats no part of the token but claims."""


class SigningKeyUnknown(TokenRejected):
    """No key fits the token: the provider may have a new one."""


@dataclass(frozen=True, slots=True)
class TokenPolicy:
    """What a token must say. Every field is mandatory or has a strict default."""

    issuer: str
    audiences: tuple[str, ...]
    """One of them must be among the token's."""
    algorithms: tuple[str, ...] = tuple(ALGORITHMS)
    leeway_s: int = 30
    """Tolerated difference between the clocks of provider and broker."""
    user_claim: str = "sub"

    def __post_init__(self) -> None:
        """Raises InvalidConfig: without an issuer or an audience every token of a provider would be accepted."""
        if not self.issuer or not self.audiences or not all(self.audiences):
            raise InvalidConfig("OAUTHBEARER needs an issuer and an audience: without them it stays off")
        if not self.user_claim:
            raise InvalidConfig("OAUTHBEARER: the claim with the user name must not be empty")
        if unknown := [name for name in self.algorithms if name not in ALGORITHMS]:
            raise InvalidConfig(
                f"OAUTHBEARER: algorithm {unknown[0]!r} is not allowed; allowed are {', '.join(ALGORITHMS)}"
            )
        if not self.algorithms or not 0 <= self.leeway_s <= LEEWAY_S_MAX:
            raise InvalidConfig(
                f"OAUTHBEARER: expected algorithms, and a leeway of 0 to {LEEWAY_S_MAX} seconds"
            )


class _Header(NamedTuple):
    algorithm: str
    key_id: str | None


def validate_token(bearer: Secret, keys: KeySet, policy: TokenPolicy, now_ms: int) -> CredentialsAccepted:
    """The user that the token names, and when it expires. Raises TokenRejected."""
    token = bearer.reveal()
    header = _decode_header(token, policy)
    candidates = keys.candidates(header.key_id, header.algorithm)
    if not candidates:
        raise SigningKeyUnknown(
            f"no key of the provider fits kid {header.key_id!r} and alg {header.algorithm}"
        )
    payload = _verified_payload(token, candidates, header.algorithm)
    return _check_claims(payload, policy, now_ms / 1000)


def _decode_header(token: bytes, policy: TokenPolicy) -> _Header:
    if len(token) > BEARER_BYTES_MAX:
        raise TokenRejected(f"the token has over {BEARER_BYTES_MAX} bytes")
    parts = token.split(b".")
    if len(parts) != 3:
        raise TokenRejected("the token is not a signed JWT of three parts")
    header = _decode_object(parts[0], "header")
    algorithm, key_id, kind = header.get("alg"), header.get("kid"), header.get("typ")
    if not isinstance(algorithm, str) or algorithm not in policy.algorithms:
        raise TokenRejected(f"alg {str(algorithm)[:20]!r} is not allowed")
    if "crit" in header or header.get("b64", True) is not True:
        raise TokenRejected("critical extensions are not supported")
    if (kind.lower() if isinstance(kind, str) else kind) not in _TYPES:
        raise TokenRejected(f"typ {str(kind)[:20]!r} is not an access token")
    if key_id is not None and not (isinstance(key_id, str) and 0 < len(key_id) <= KEY_ID_CHARS_MAX):
        raise TokenRejected("the kid is not a text")
    return _Header(algorithm, key_id)


def _verified_payload(token: bytes, candidates: list[Any], algorithm: str) -> dict[str, Any]:
    from jwt.api_jws import PyJWS
    from jwt.exceptions import PyJWTError

    verifier = PyJWS(algorithms=[algorithm])
    for key in candidates:
        try:
            content = verifier.decode_complete(token, key, algorithms=[algorithm])["payload"]
        except (PyJWTError, ValueError, TypeError):
            continue
        return _parse_object(content, "payload")
    raise TokenRejected("the signature is not valid")


def _decode_object(part: bytes, what: str) -> dict[str, Any]:
    try:
        content = base64.b64decode(part + b"=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        raise TokenRejected(f"the {what} is not base64url") from None
    return _parse_object(content, what)


def _parse_object(content: bytes, what: str) -> dict[str, Any]:
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise TokenRejected(f"the {what} is not JSON") from None
    if not isinstance(found, dict):
        raise TokenRejected(f"the {what} is not an object")
    return found


def _check_claims(claims: dict[str, Any], policy: TokenPolicy, now_s: float) -> CredentialsAccepted:
    if claims.get("iss") != policy.issuer:
        raise TokenRejected(f"issuer {str(claims.get('iss'))[:200]!r} is not {policy.issuer!r}")
    audience = claims.get("aud")
    audiences = [audience] if isinstance(audience, str) else audience
    if not isinstance(audiences, list) or len(audiences) > AUDIENCES_MAX:
        raise TokenRejected("the token has no audience")
    if not any(isinstance(one, str) and one in policy.audiences for one in audiences):
        raise TokenRejected(f"the audience {str(audiences)[:200]} is not accepted here")
    expires_s = _time(claims, "exp")
    if expires_s is None:
        raise TokenRejected("the token has no expiry (exp)")
    if now_s >= expires_s + policy.leeway_s:
        raise TokenRejected("the token has expired")
    for name in ("nbf", "iat"):
        begins_s = _time(claims, name)
        if begins_s is not None and now_s < begins_s - policy.leeway_s:
            raise TokenRejected(f"the token is not valid yet ({name})")
    user = claims.get(policy.user_claim)
    if not isinstance(user, str):
        raise TokenRejected(f"the token has no claim {policy.user_claim!r} with a user name")
    try:
        user_principal(user)
    except NotAuthenticated as error:
        raise TokenRejected(error.reason) from None
    return CredentialsAccepted(user, int((expires_s + policy.leeway_s) * 1000))


def _time(claims: dict[str, Any], name: str) -> float | None:
    value = claims.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not _is_time(value):
        raise TokenRejected(f"{name} is not a time")
    return float(value)


def _is_time(value: float) -> bool:
    return 0 <= value < 1e12 and (isinstance(value, int) or math.isfinite(value))
