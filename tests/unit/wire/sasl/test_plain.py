"""SASL PLAIN: the examples of RFC 4616, our own client, and what is refused."""

from __future__ import annotations

import pytest

from penstock.client.access import Credentials
from penstock.client.raw.sasl import exchange
from penstock.core.authentication.failure import AuthFailureKind, NotAuthenticated
from penstock.core.authentication.scram import PASSWORD_BYTES_MAX, USER_BYTES_MAX
from penstock.wire.sasl.plain import PLAIN_BYTES_MAX, PlainExchange
from penstock.wire.sasl.steps import Authenticated, CredentialsAccepted, CredentialsRejected


def test_the_host_checks_the_password() -> None:
    plain = PlainExchange()
    step = plain.receive(b"\0tim\0tanstaaftanstaaf")
    assert (step.user, step.password.reveal()) == ("tim", b"tanstaaftanstaaf")
    assert "tanstaaf" not in repr(step)
    assert plain.resolve(CredentialsAccepted("tim")) == Authenticated(b"", "tim")


def test_our_own_client() -> None:
    step = PlainExchange().receive(next(exchange(Credentials("PLAIN", "älice", "pass wörd"))))
    assert (step.user, step.password.reveal_text()) == ("älice", "pass wörd")


def test_a_wrong_password_is_refused_without_a_hint() -> None:
    plain = PlainExchange()
    plain.receive(b"\0tim\0tanstaaftanstaaf")
    with pytest.raises(NotAuthenticated, match="invalid user name or password") as raised:
        plain.resolve(CredentialsRejected("unknown user"))
    assert "tim" not in str(raised.value)
    assert raised.value.reason == "PLAIN: user 'tim': unknown user"


def test_the_authorization_id_may_repeat_the_user() -> None:
    assert PlainExchange().receive(b"tim\0tim\0secret").user == "tim"


def test_nobody_acts_as_somebody_else() -> None:
    with pytest.raises(NotAuthenticated, match="authorization id must be empty") as raised:
        PlainExchange().receive(b"Ursel\0Kurt\0xipj3plmq")
    assert raised.value.kind is AuthFailureKind.CREDENTIALS
    assert "xipj3plmq" not in raised.value.reason


@pytest.mark.parametrize(
    "token",
    [
        b"",
        b"tim",
        b"\0tim",
        b"\0tim\0",
        b"\0\0secret",
        b"\0tim\0secret\0more",
        b"\0tim\0\xff\xfe",
        b"\0t\nim\0secret",
        b"\0t\x1b[31m\0secret",
        b"\0" + b"u" * (USER_BYTES_MAX + 1) + b"\0secret",
        b"\0tim\0" + b"p" * (PASSWORD_BYTES_MAX + 1),
        b"\0tim\0" + b"p" * PLAIN_BYTES_MAX,
    ],
)
def test_malformed_tokens_are_refused(token: bytes) -> None:
    with pytest.raises(NotAuthenticated) as raised:
        PlainExchange().receive(token)
    assert raised.value.kind is AuthFailureKind.MALFORMED
    assert "secret" not in raised.value.reason


def test_an_exchange_is_used_once() -> None:
    plain = PlainExchange()
    with pytest.raises(NotAuthenticated, match="has ended"):
        plain.resolve(CredentialsAccepted("tim"))
    plain.receive(b"\0tim\0secret")
    with pytest.raises(NotAuthenticated, match="has ended"):
        plain.receive(b"\0tim\0secret")
    plain.resolve(CredentialsAccepted("tim"))
    with pytest.raises(NotAuthenticated, match="has ended"):
        plain.resolve(CredentialsAccepted("tim"))
