"""SASL on a connection: in which order messages may come, re-authentication, and how long a session lasts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from penstock.client.access import Credentials
from penstock.client.raw.sasl import exchange
from penstock.core.authentication.failure import AuthFailureKind, NotAuthenticated
from penstock.node.runtime.clock import SystemRng
from penstock.wire.sasl.dialogue import SaslDialogue, SaslState
from penstock.wire.sasl.offer import SaslOffer
from penstock.wire.sasl.steps import (
    Authenticated,
    CheckBearer,
    CheckPassword,
    CredentialsAccepted,
    CredentialsRejected,
    SaslChallenge,
)
from security_samples import LOOKUP

NOW_MS = 1_000_000
BEARER = b"n,,\x01auth=Bearer x\x01\x01"
OFFER = SaslOffer(["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"], LOOKUP, SystemRng())


def dialogue(reauthenticate_ms_max: int | None = None) -> SaslDialogue:
    return SaslDialogue(OFFER.mechanisms(is_encrypted=True), OFFER.start, reauthenticate_ms_max)


def log_in_plain(one: SaslDialogue, user: str = "alice", version: int = 1) -> Authenticated:
    one.handshake("PLAIN", version)
    assert isinstance(one.receive(f"\0{user}\0secret".encode(), NOW_MS), CheckPassword)
    step = one.resolve(CredentialsAccepted(user), NOW_MS)
    assert isinstance(step, Authenticated)
    return step


@contextlib.contextmanager
def refused(kind: AuthFailureKind) -> Iterator[None]:
    with pytest.raises(NotAuthenticated) as raised:
        yield
    assert raised.value.kind is kind


def test_plain_asks_the_host() -> None:
    one = dialogue()
    assert (one.state, one.user) == (SaslState.NEW, None)
    one.handshake("PLAIN", 1)
    step = one.receive(b"\0alice\0secret", NOW_MS)
    assert isinstance(step, CheckPassword)
    assert (one.state, one.user) == (SaslState.CHECKING, None)
    assert one.resolve(CredentialsAccepted("alice"), NOW_MS) == Authenticated(b"", "alice")
    assert (one.state, one.user, one.session_lifetime_ms) == (SaslState.AUTHENTICATED, "alice", 0)
    assert not one.is_expired(NOW_MS * 1000)


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
@pytest.mark.parametrize("version", [0, 1])
def test_scram_with_our_own_client(mechanism: str, version: int) -> None:
    one = dialogue()
    client = exchange(Credentials(mechanism, "alice", "wonderland"))
    one.handshake(mechanism, version)
    assert one.takes_raw_tokens == (version == 0)
    challenge = one.receive(next(client), NOW_MS)
    assert isinstance(challenge, SaslChallenge)
    assert one.takes_raw_tokens == (version == 0)
    step = one.receive(client.send(challenge.token), NOW_MS)
    assert isinstance(step, Authenticated)
    with pytest.raises(StopIteration):
        client.send(step.token)
    assert one.user == "alice"
    assert not one.takes_raw_tokens


def test_the_mechanism_must_be_offered() -> None:
    one = dialogue()
    with pytest.raises(
        NotAuthenticated, match="'GSSAPI' is not offered here; offered: SCRAM-SHA-512"
    ) as raised:
        one.handshake("GSSAPI", 1)
    assert raised.value.kind is AuthFailureKind.MECHANISM
    assert one.mechanisms == ("SCRAM-SHA-512", "SCRAM-SHA-256", "OAUTHBEARER", "PLAIN")
    with refused(AuthFailureKind.STATE):
        one.handshake("PLAIN", 1)


def test_tokens_come_after_the_handshake() -> None:
    with refused(AuthFailureKind.STATE):
        dialogue().receive(b"\0alice\0secret", NOW_MS)


def test_no_second_handshake_inside_an_exchange() -> None:
    one = dialogue()
    one.handshake("SCRAM-SHA-256", 1)
    with refused(AuthFailureKind.STATE):
        one.handshake("SCRAM-SHA-256", 1)


def test_no_token_while_the_last_one_is_checked() -> None:
    one = dialogue()
    one.handshake("PLAIN", 1)
    one.receive(b"\0alice\0secret", NOW_MS)
    with refused(AuthFailureKind.STATE):
        one.receive(b"\0alice\0secret", NOW_MS)
    with refused(AuthFailureKind.STATE):
        one.resolve(CredentialsAccepted("alice"), NOW_MS)
    assert one.user is None


def test_a_failure_ends_the_dialogue() -> None:
    one = dialogue()
    one.handshake("PLAIN", 1)
    one.receive(b"\0alice\0guess", NOW_MS)
    with refused(AuthFailureKind.CREDENTIALS):
        one.resolve(CredentialsRejected("wrong password"), NOW_MS)
    assert one.state is SaslState.FAILED
    for again in (lambda: one.handshake("PLAIN", 1), lambda: one.receive(b"\0alice\0secret", NOW_MS)):
        with refused(AuthFailureKind.STATE):
            again()


def test_a_rejected_bearer_token_is_challenged_first() -> None:
    one = dialogue()
    one.handshake("OAUTHBEARER", 1)
    assert isinstance(one.receive(BEARER, NOW_MS), CheckBearer)
    assert isinstance(one.resolve(CredentialsRejected("expired"), NOW_MS), SaslChallenge)
    assert one.user is None
    with refused(AuthFailureKind.CREDENTIALS):
        one.receive(b"\x01", NOW_MS)


def test_the_same_user_may_authenticate_again() -> None:
    one = dialogue(reauthenticate_ms_max=1000)
    log_in_plain(one)
    assert one.session_lifetime_ms == 1000
    assert not one.is_expired(NOW_MS + 999)
    assert one.is_expired(NOW_MS + 1000)
    one.handshake("PLAIN", 1)
    assert one.user is None
    one.receive(b"\0alice\0secret", NOW_MS + 900)
    one.resolve(CredentialsAccepted("alice"), NOW_MS + 900)
    assert one.user == "alice"
    assert not one.is_expired(NOW_MS + 1899)


def test_nobody_becomes_another_user_by_authenticating_again() -> None:
    one = dialogue()
    log_in_plain(one)
    one.handshake("PLAIN", 1)
    one.receive(b"\0mallory\0secret", NOW_MS)
    with pytest.raises(NotAuthenticated, match="same user"):
        one.resolve(CredentialsAccepted("mallory"), NOW_MS)
    assert one.user is None


def test_the_mechanism_stays_the_same() -> None:
    one = dialogue()
    log_in_plain(one)
    with pytest.raises(NotAuthenticated, match="same mechanism, PLAIN, not SCRAM-SHA-256"):
        one.handshake("SCRAM-SHA-256", 1)


def test_raw_tokens_cannot_authenticate_again() -> None:
    one = dialogue()
    log_in_plain(one, version=0)
    with pytest.raises(NotAuthenticated, match="SaslHandshake version 1"):
        one.handshake("PLAIN", 0)


@pytest.mark.parametrize(
    ("limit_ms", "expires_ms", "lifetime_ms"),
    [
        (None, NOW_MS + 500, 500),
        (100, NOW_MS + 500, 100),
        (900, NOW_MS + 500, 500),
        (100, None, 100),
        (None, None, 0),
    ],
)
def test_a_session_ends_with_the_token_or_the_limit(
    limit_ms: int | None, expires_ms: int | None, lifetime_ms: int
) -> None:
    one = dialogue(limit_ms)
    one.handshake("OAUTHBEARER", 1)
    one.receive(BEARER, NOW_MS)
    one.resolve(CredentialsAccepted("alice", expires_ms), NOW_MS)
    assert one.session_lifetime_ms == lifetime_ms
    assert one.is_expired(NOW_MS + 10_000) == (lifetime_ms > 0)


def test_credentials_that_have_just_expired_are_refused() -> None:
    one = dialogue()
    one.handshake("OAUTHBEARER", 1)
    one.receive(BEARER, NOW_MS)
    with pytest.raises(NotAuthenticated, match="expired"):
        one.resolve(CredentialsAccepted("alice", NOW_MS), NOW_MS)
