"""The messages that prove who we are, against the examples of the standards."""

from __future__ import annotations

import pytest

from penstock.client.access import Credentials
from penstock.client.errors import AuthenticationFailed, BadArgument, Refused
from penstock.client.raw import sasl
from penstock.client.tokens import TokenSource

ANN = Credentials("SCRAM-SHA-256", "user", "pencil")
NONCE = "rOprNGfwEbeRWgbNEkqO"
SERVER = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"


def test_plain_is_one_message() -> None:
    assert list(sasl.exchange(Credentials("PLAIN", "ann", "secret"))) == [b"\0ann\0secret"]


def test_the_exchange_of_rfc_7677() -> None:
    talk = sasl._scram(ANN, "sha256", NONCE)
    assert next(talk) == b"n,,n=user,r=" + NONCE.encode()
    proof = talk.send(SERVER)
    assert proof.endswith(b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=")
    with pytest.raises(StopIteration):
        talk.send(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (SERVER.replace(b"r=rO", b"r=xx"), "invalid SCRAM response"),
        (SERVER.replace(b"4096", b"many"), "invalid SCRAM response"),
        (SERVER.replace(b"4096", b"99999999"), "SCRAM iterations"),
        (b"", "invalid SCRAM response"),
    ],
)
def test_a_server_that_cheats_is_refused(answer: bytes, words: str) -> None:
    talk = sasl._scram(ANN, "sha256", NONCE)
    next(talk)
    with pytest.raises(Refused, match=words):
        talk.send(answer)


def test_a_server_without_the_password_is_found_out() -> None:
    talk = sasl._scram(ANN, "sha256", NONCE)
    next(talk)
    talk.send(SERVER)
    with pytest.raises(Refused, match="server signature"):
        talk.send(b"v=AAAA")


def test_a_bearer_token_is_one_message() -> None:
    talk = sasl.exchange(Credentials("OAUTHBEARER", "", "", TokenSource(token="abc")))
    assert next(talk) == b"n,,\x01auth=Bearer abc\x01\x01"
    with pytest.raises(StopIteration):
        talk.send(b"")


def test_a_rejected_token_is_acknowledged_and_its_status_is_told() -> None:
    talk = sasl.exchange(Credentials("OAUTHBEARER", "", "", TokenSource(token="abc")))
    next(talk)
    assert talk.send(b'{"status":"invalid_token"}') == b"\x01"
    with pytest.raises(AuthenticationFailed, match=r"it said no \(invalid_token\)"):
        talk.throw(AuthenticationFailed("it said no"))


@pytest.mark.parametrize("token", ["a b", "a\x01auth=x", "a\nb", "ä"])
def test_a_token_cannot_carry_another_message(token: str) -> None:
    with pytest.raises(BadArgument, match="characters"):
        next(sasl.exchange(Credentials("OAUTHBEARER", "", "", TokenSource(token=token))))
