"""OAUTHBEARER: the example of RFC 7628, the error exchange, and what is refused."""

from __future__ import annotations

import json

import pytest

from penstock.core.authentication.failure import AuthFailureKind, NotAuthenticated
from penstock.wire.sasl.oauthbearer import (
    BEARER_BYTES_MAX,
    EXTENSIONS_MAX,
    OauthBearerExchange,
    decode_initial_response,
)
from penstock.wire.sasl.steps import Authenticated, CredentialsAccepted, CredentialsRejected, SaslChallenge

TOKEN = b"vF9dft4qmTc2Nvb3RlckBhbHRhdmlzdGEuY29tCg=="
RFC_EXAMPLE = (
    b"n,a=user@example.com,\x01host=server.example.com\x01port=143\x01auth=Bearer " + TOKEN + b"\x01\x01"
)
KAFKA_EXAMPLE = b"n,,\x01auth=Bearer " + TOKEN + b"\x01traceId=123\x01\x01"


def test_the_example_of_the_rfc() -> None:
    authorization_id, bearer = decode_initial_response(RFC_EXAMPLE)
    assert (authorization_id, bearer.reveal()) == ("user@example.com", TOKEN)


def test_the_host_validates_the_token() -> None:
    oauth = OauthBearerExchange()
    step = oauth.receive(KAFKA_EXAMPLE)
    assert step.bearer.reveal() == TOKEN
    assert TOKEN.decode() not in repr(step)
    assert oauth.resolve(CredentialsAccepted("alice", 5000)) == Authenticated(b"", "alice", 5000)


def test_a_rejected_token_is_answered_before_the_exchange_fails() -> None:
    oauth = OauthBearerExchange("kafka", "https://id.example.com/.well-known/openid-configuration")
    oauth.receive(KAFKA_EXAMPLE)
    challenge = oauth.resolve(CredentialsRejected("the token has expired"))
    assert isinstance(challenge, SaslChallenge)
    assert json.loads(challenge.token) == {
        "status": "invalid_token",
        "scope": "kafka",
        "openid-configuration": "https://id.example.com/.well-known/openid-configuration",
    }
    with pytest.raises(NotAuthenticated, match="the bearer token is not valid") as raised:
        oauth.receive(b"\x01")
    assert raised.value.reason == "OAUTHBEARER: the token has expired"


def test_a_second_token_after_a_rejection_is_not_looked_at() -> None:
    oauth = OauthBearerExchange()
    oauth.receive(KAFKA_EXAMPLE)
    assert oauth.resolve(CredentialsRejected("no")) == SaslChallenge(b'{"status":"invalid_token"}')
    with pytest.raises(NotAuthenticated, match="not valid"):
        oauth.receive(KAFKA_EXAMPLE)
    with pytest.raises(NotAuthenticated, match="has ended"):
        oauth.receive(KAFKA_EXAMPLE)


def test_nobody_acts_as_another_user_than_the_token_names() -> None:
    oauth = OauthBearerExchange()
    oauth.receive(RFC_EXAMPLE)
    with pytest.raises(NotAuthenticated, match="authorization id"):
        oauth.resolve(CredentialsAccepted("mallory"))
    oauth = OauthBearerExchange()
    oauth.receive(RFC_EXAMPLE)
    assert isinstance(oauth.resolve(CredentialsAccepted("user@example.com")), Authenticated)


def test_a_verdict_is_expected_once() -> None:
    oauth = OauthBearerExchange()
    with pytest.raises(NotAuthenticated, match="has ended"):
        oauth.resolve(CredentialsAccepted("alice"))


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"\x01",
        b"n,,",
        b"n,,\x01\x01",
        b"n,,\x01auth=Bearer x\x01",
        b"n,,\x01auth=Bearer x",
        b"n,,auth=Bearer x\x01\x01",
        b"n,\x01auth=Bearer x\x01\x01",
        b"n,,,\x01auth=Bearer x\x01\x01",
        b"x,,\x01auth=Bearer x\x01\x01",
        b"n,b=x,\x01auth=Bearer x\x01\x01",
        b"n,a=x=,\x01auth=Bearer x\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer \x01\x01",
        b"n,,\x01auth=Bearer x y\x01\x01",
        b"n,,\x01auth=Basic x\x01\x01",
        b"n,,\x01auth=Bearer x\x01auth=Bearer y\x01\x01",
        b"n,,\x01auth=Bearer x\x01a1=y\x01\x01",
        b"n,,\x01auth=Bearer x\x01key\x01\x01",
        b"n,,\x01auth=Bearer x\x01key=\x01\x01",
        b"n,,\x01auth=Bearer x\x01\x01\x01",
        b"n,,\x01auth=Bearer \xff\x01\x01",
        b"n,,\x01auth=Bearer " + b"x" * (BEARER_BYTES_MAX + 1) + b"\x01\x01",
        b"n,,\x01auth=Bearer x\x01key=" + b"x" * 70_000 + b"\x01\x01",
        b"n,,\x01auth=Bearer x\x01"
        + b"".join(b"k%s=v\x01" % bytes([97 + i % 26, 97 + i // 26]) for i in range(EXTENSIONS_MAX))
        + b"\x01",
        b"n,a=" + b"x" * 1025 + b",\x01auth=Bearer x\x01\x01",
    ],
)
def test_malformed_responses_are_refused(token: bytes) -> None:
    with pytest.raises(NotAuthenticated) as raised:
        OauthBearerExchange().receive(token)
    assert raised.value.kind is AuthFailureKind.MALFORMED


def test_channel_binding_is_refused() -> None:
    with pytest.raises(NotAuthenticated, match="channel binding"):
        decode_initial_response(b"p=tls-exporter,,\x01auth=Bearer x\x01\x01")
