"""Bearer tokens: signature, issuer, audience and times; known attacks on JWT libraries fail."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import Any

import jwt
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.authentication.secret import Secret
from penstock.core.errors import InvalidConfig
from penstock.node.security.bearer_token import (
    SigningKeyUnknown,
    TokenPolicy,
    TokenRejected,
    validate_token,
)
from penstock.node.security.key_set import decode_key_set
from penstock.wire.sasl.steps import CredentialsAccepted
from security_samples import AUDIENCE, ISSUER, SampleProvider, claims_at

NOW_S = 1_750_000_000
NOW_MS = NOW_S * 1000
POLICY = TokenPolicy(ISSUER, (AUDIENCE, "other"), leeway_s=10)
PROVIDER = SampleProvider()
KEYS = decode_key_set(PROVIDER.key_set())


def validate(token: Secret, policy: TokenPolicy = POLICY) -> CredentialsAccepted:
    return validate_token(token, KEYS, policy, NOW_MS)


def part(content: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(content).encode()).rstrip(b"=").decode()


@pytest.mark.parametrize(
    ("name", "algorithm"),
    [("rsa", "RS256"), ("rsa", "RS512"), ("rsa", "PS256"), ("ec", "ES256"), ("ed", "EdDSA")],
)
def test_valid_tokens_are_accepted(name: str, algorithm: str) -> None:
    found = validate(PROVIDER.token(claims_at(NOW_S), name, algorithm))
    assert found == CredentialsAccepted("alice", (NOW_S + 60 + 10) * 1000)


@pytest.mark.parametrize(
    "changes",
    [
        {"aud": ["x", AUDIENCE]},
        {"aud": "other"},
        {"exp": NOW_S - 9},
        {"exp": NOW_S + 0.5},
        {"nbf": NOW_S + 10},
        {"iat": None},
        {"nbf": NOW_S},
        {"sub": "CN=a,O=b"},
    ],
)
def test_claims_within_the_rules(changes: dict[str, Any]) -> None:
    assert validate(PROVIDER.token(claims_at(NOW_S, **changes))).user


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"iss": None}, "issuer 'None' is not"),
        ({"iss": ISSUER + "/"}, "issuer"),
        ({"iss": [ISSUER]}, "issuer"),
        ({"iss": ISSUER[:-1]}, "issuer"),
        ({"aud": None}, "no audience"),
        ({"aud": {}}, "no audience"),
        ({"aud": []}, "not accepted here"),
        ({"aud": "penstock2"}, "not accepted here"),
        ({"aud": [["penstock"], 5]}, "not accepted here"),
        ({"aud": ["x"] * 101}, "no audience"),
        ({"exp": None}, "no expiry"),
        ({"exp": NOW_S - 10}, "has expired"),
        ({"exp": str(NOW_S + 60)}, "exp is not a time"),
        ({"exp": True}, "exp is not a time"),
        ({"exp": float("nan")}, "exp is not a time"),
        ({"exp": float("inf")}, "exp is not a time"),
        ({"exp": 10**400}, "exp is not a time"),
        ({"exp": -5}, "exp is not a time"),
        ({"nbf": NOW_S + 11}, r"not valid yet \(nbf\)"),
        ({"nbf": "now"}, "nbf is not a time"),
        ({"iat": NOW_S + 11}, r"not valid yet \(iat\)"),
        ({"sub": None}, "no claim 'sub'"),
        ({"sub": 5}, "no claim 'sub'"),
        ({"sub": ""}, "invalid user name"),
        ({"sub": "a\nb"}, "invalid user name"),
        ({"sub": "ANONYMOUS"}, "reserved"),
        ({"sub": "*"}, "reserved"),
    ],
)
def test_claims_that_are_refused(changes: dict[str, Any], words: str) -> None:
    claims = claims_at(NOW_S, **changes)
    token = jwt.api_jws.encode(json.dumps(claims).encode(), PROVIDER.key("rsa"), "RS256", {"kid": "rsa"})
    with pytest.raises(TokenRejected, match=words):
        validate(Secret(token))


def test_another_claim_may_name_the_user() -> None:
    policy = TokenPolicy(ISSUER, (AUDIENCE,), user_claim="preferred_username")
    token = PROVIDER.token(claims_at(NOW_S, preferred_username="bob"))
    assert validate(token, policy).user == "bob"


def test_no_algorithm_is_not_an_algorithm() -> None:
    """CVE-2021-22160 and others: alg none in any spelling."""
    for algorithm in ("none", "None", "NONE", "", None, 5, ["RS256"]):
        header, payload = part({"alg": algorithm, "kid": "rsa"}), part(claims_at(NOW_S))
        for signature in ("", "AAAA"):
            with pytest.raises(TokenRejected, match="is not allowed"):
                validate(Secret(f"{header}.{payload}.{signature}"))
    with pytest.raises(TokenRejected, match="is not allowed"):
        validate(Secret(jwt.encode(claims_at(NOW_S), None, "none")))


def test_a_public_key_is_not_a_shared_secret() -> None:
    """Algorithm confusion: an HMAC with the provider's public key, which everybody knows."""
    public = PROVIDER.key("rsa").public_key()
    for secret in (
        public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo),
        public.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
    ):
        import hmac

        signed = f"{part({'alg': 'HS256', 'kid': 'rsa', 'typ': 'JWT'})}.{part(claims_at(NOW_S))}"
        signature = (
            base64.urlsafe_b64encode(hmac.digest(secret, signed.encode(), "sha256")).rstrip(b"=").decode()
        )
        with pytest.raises(TokenRejected, match="alg 'HS256' is not allowed"):
            validate(Secret(f"{signed}.{signature}"))


@pytest.mark.parametrize("algorithm", ["none", "HS256", "HS512", "ES256K", "rs256", ""])
def test_weak_algorithms_cannot_be_configured(algorithm: str) -> None:
    with pytest.raises(InvalidConfig, match="is not allowed"):
        TokenPolicy(ISSUER, (AUDIENCE,), (algorithm,))


def test_the_list_of_algorithms_is_binding() -> None:
    policy = TokenPolicy(ISSUER, (AUDIENCE,), ("ES256",))
    with pytest.raises(TokenRejected, match="alg 'RS256' is not allowed"):
        validate(PROVIDER.token(claims_at(NOW_S)), policy)


@pytest.mark.parametrize(
    ("issuer", "audiences", "more"),
    [
        ("", (AUDIENCE,), {}),
        (ISSUER, (), {}),
        (ISSUER, ("",), {}),
        (ISSUER, (AUDIENCE,), {"algorithms": ()}),
        (ISSUER, (AUDIENCE,), {"leeway_s": 301}),
        (ISSUER, (AUDIENCE,), {"leeway_s": -1}),
        (ISSUER, (AUDIENCE,), {"user_claim": ""}),
    ],
)
def test_a_policy_that_would_accept_too_much_is_an_error(issuer: str, audiences: Any, more: Any) -> None:
    with pytest.raises(InvalidConfig):
        TokenPolicy(issuer, audiences, **more)


def test_a_key_of_another_provider_does_not_sign() -> None:
    with pytest.raises(TokenRejected, match="signature is not valid"):
        validate(SampleProvider().token(claims_at(NOW_S)))


def test_keys_in_the_token_are_not_used() -> None:
    """A token that brings its own key, or says where to fetch it."""
    stranger = SampleProvider("own-")
    (own,) = stranger.jwks("rsa")
    for header in ({"jwk": own}, {"jku": "https://evil.example/keys"}, {"x5u": "file:///etc/passwd"}):
        with pytest.raises(SigningKeyUnknown):
            validate(stranger.token(claims_at(NOW_S), **header))
        with pytest.raises(TokenRejected, match="signature is not valid"):
            validate(stranger.token(claims_at(NOW_S), **{**header, "kid": "rsa"}))


def test_an_unknown_key_is_told_apart() -> None:
    with pytest.raises(SigningKeyUnknown, match="kid 'new' and alg RS256"):
        validate(PROVIDER.token(claims_at(NOW_S), kid="new"))


@pytest.mark.parametrize(
    ("header", "words"),
    [
        ({"crit": ["exp"]}, "critical extensions"),
        ({"crit": []}, "critical extensions"),
        ({"b64": False}, "critical extensions"),
        ({"typ": "JWE"}, "typ 'JWE'"),
        ({"typ": "dpop+jwt"}, "typ 'dpop"),
        ({"typ": 5}, "typ '5'"),
        ({"kid": 5}, "kid is not a text"),
        ({"kid": ["rsa"]}, "kid is not a text"),
        ({"kid": "x" * 257}, "kid is not a text"),
    ],
)
def test_headers_that_are_refused(header: dict[str, Any], words: str) -> None:
    head = part({"alg": "RS256", "kid": "rsa", **header})
    with pytest.raises(TokenRejected, match=words):
        validate(Secret(f"{head}.{part(claims_at(NOW_S))}.AAAA"))


@pytest.mark.parametrize("kind", ["JWT", "jwt", "at+jwt", None])
def test_types_of_access_tokens(kind: str | None) -> None:
    assert validate(PROVIDER.token(claims_at(NOW_S), typ=kind)).user == "alice"


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"...",
        b"a.b",
        b"a.b.c",
        b"a.b.c.d.e",
        b"\xff.\xff.\xff",
        b"e30.e30.e30",
        b"W10.e30.",
        b"x" * 40_000,
    ],
)
def test_what_is_no_token_is_refused(token: bytes) -> None:
    with pytest.raises(TokenRejected):
        validate(Secret(token))


TOKEN = PROVIDER.token(claims_at(NOW_S), "ec", "ES256").reveal()


@given(st.integers(0, len(TOKEN) - 1), st.integers(1, 255))
def test_a_changed_byte_is_noticed(place: int, flip: int) -> None:
    changed = TOKEN[:place] + bytes([TOKEN[place] ^ flip]) + TOKEN[place + 1 :]
    with contextlib.suppress(TokenRejected):
        validate(Secret(changed))
        raise AssertionError(f"accepted {changed!r}")


@given(
    st.lists(st.one_of(st.binary(max_size=40), st.sampled_from(TOKEN.split(b"."))), max_size=5).map(b".".join)
)
def test_any_bytes_are_refused(token: bytes) -> None:
    if token != TOKEN:
        with pytest.raises(TokenRejected):
            validate(Secret(token))
