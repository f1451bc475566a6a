"""SCRAM: the example of RFC 7677, our own client, and every field that an attacker may change."""

from __future__ import annotations

import base64

import pytest

from penstock.client.access import Credentials
from penstock.client.errors import Refused
from penstock.client.raw.sasl import exchange
from penstock.core.authentication.failure import AuthFailureKind, NotAuthenticated
from penstock.core.authentication.scram import (
    CredentialLookup,
    ScramCredential,
    ScramMechanism,
    derive_credential,
)
from penstock.core.authentication.secret import Secret
from penstock.wire.sasl.scram import SCRAM_BYTES_MAX, ScramExchange
from penstock.wire.sasl.steps import Authenticated, CredentialsAccepted, SaslChallenge
from security_samples import LOOKUP, NONCE, log_in

SHA_256 = ScramMechanism.SHA_256
FIRST = b"n,,n=alice,r=clientnonce"


def server(mechanism: ScramMechanism = SHA_256, nonce: str = NONCE) -> ScramExchange:
    return ScramExchange(mechanism, LOOKUP, nonce)


def test_the_example_of_rfc_7677() -> None:
    salt = base64.b64decode("W22ZaJ0SNY7soEsUEjb6gQ==")

    class Users:
        def credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
            return derive_credential(mechanism, Secret("pencil"), salt, 4096) if user == "user" else None

    scram = ScramExchange(SHA_256, CredentialLookup(Users(), b"d" * 32), "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0")
    nonces = b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    assert scram.receive(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == SaslChallenge(
        nonces + b",s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert scram.receive(
        b"c=biws," + nonces + b",p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
    ) == Authenticated(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=", "user")


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize(("user", "password"), [("alice", "wonderland"), ("a=b,c", "pass=word,")])
def test_our_own_client(mechanism: ScramMechanism, user: str, password: str) -> None:
    """The client verifies the server's signature, so both sides have proven themselves."""
    step = log_in(server(mechanism), mechanism.value, user, password)
    assert isinstance(step, Authenticated)
    assert (step.user, step.expires_ms) == (user, None)


def test_the_client_notices_a_server_that_does_not_know_the_password() -> None:
    client = exchange(Credentials("SCRAM-SHA-256", "alice", "other"))
    client.send(server().receive(next(client)).token)  # type: ignore[arg-type]
    with pytest.raises(Refused, match="failed to prove"):
        client.send(b"v=" + base64.b64encode(b"x" * 32))


@pytest.mark.parametrize(
    ("user", "reason"),
    [("alice", "wrong password, user 'alice'"), ("mallory", "unknown user, user 'mallory'")],
)
def test_wrong_passwords_and_unknown_users_look_the_same(user: str, reason: str) -> None:
    with pytest.raises(NotAuthenticated) as raised:
        log_in(server(), "SCRAM-SHA-256", user, "guess")
    assert str(raised.value) == "authentication failed: invalid user name or password"
    assert raised.value.kind is AuthFailureKind.CREDENTIALS
    assert raised.value.reason == f"SCRAM-SHA-256: {reason}"


def test_the_challenge_does_not_tell_whether_a_user_exists() -> None:
    """Same salt at every attempt, same length, as for users that exist."""
    first, again = (server().receive(b"n,,n=mallory,r=clientnonce") for _ in range(2))
    known = server().receive(FIRST)
    assert first == again
    assert first != known
    assert len(first.token) == len(known.token)


def logged(scram: ScramExchange) -> tuple[str, SaslChallenge | Authenticated]:
    client = exchange(Credentials("SCRAM-SHA-256", "alice", "wonderland"))
    challenge = scram.receive(next(client))
    return client.send(challenge.token).decode(), challenge


def test_the_nonce_is_verified() -> None:
    """A message that was recorded on another connection does not log in."""
    recorded, _ = logged(server())
    scram = server(nonce="another" + NONCE)
    logged(scram)
    with pytest.raises(NotAuthenticated) as raised:
        scram.receive(recorded.encode())
    assert "another nonce" in raised.value.reason


@pytest.mark.parametrize(
    ("old", "new", "kind"),
    [
        ("c=biws", "c=eSws", AuthFailureKind.MALFORMED),
        ("c=biws", "c=cD10bHM=", AuthFailureKind.MALFORMED),
        ("c=biws", "c=", AuthFailureKind.MALFORMED),
        ("c=biws,", "", AuthFailureKind.MALFORMED),
        (NONCE, NONCE[:-1], AuthFailureKind.CREDENTIALS),
        (NONCE, NONCE + "x", AuthFailureKind.CREDENTIALS),
        (f"{NONCE},", f"{NONCE},x=1,", AuthFailureKind.CREDENTIALS),
        (",p=", ",tokenauth=true,p=", AuthFailureKind.MECHANISM),
        (",p=", ",m=1,p=", AuthFailureKind.MECHANISM),
        (",p=", ",p=AAAA,p=", AuthFailureKind.CREDENTIALS),
        (",p=", ",p=!", AuthFailureKind.MALFORMED),
        (",p=", ",p=AAAA", AuthFailureKind.MALFORMED),
        (",p=", ",v=", AuthFailureKind.MALFORMED),
    ],
)
def test_every_part_of_the_final_message_counts(old: str, new: str, kind: AuthFailureKind) -> None:
    scram = server()
    final, _ = logged(scram)
    assert old in final
    with pytest.raises(NotAuthenticated) as raised:
        scram.receive(final.replace(old, new).encode())
    assert raised.value.kind is kind


def test_an_empty_proof_is_refused() -> None:
    scram = server()
    final, _ = logged(scram)
    with pytest.raises(NotAuthenticated, match="0 bytes, expected 32"):
        scram.receive(final[: final.index(",p=") + 3].encode())


@pytest.mark.parametrize(
    ("token", "kind"),
    [
        (b"", AuthFailureKind.MALFORMED),
        (b"n,,", AuthFailureKind.MALFORMED),
        (b"n=alice,r=clientnonce", AuthFailureKind.MALFORMED),
        (b"x,,n=alice,r=clientnonce", AuthFailureKind.MALFORMED),
        (b"n,,r=clientnonce,n=alice", AuthFailureKind.MALFORMED),
        (b"n,,n=alice", AuthFailureKind.MALFORMED),
        (b"n,,n=,r=clientnonce", AuthFailureKind.MALFORMED),
        (b"n,,n=ali=ce,r=clientnonce", AuthFailureKind.MALFORMED),
        (b"n,,n=ali=2c,r=clientnonce", AuthFailureKind.MALFORMED),
        (b"n,,n=ali=,r=clientnonce", AuthFailureKind.MALFORMED),
        (b"n,,n=a\nb,r=clientnonce", AuthFailureKind.MALFORMED),
        (b"n,,n=\xff,r=clientnonce", AuthFailureKind.MALFORMED),
        (b"n,,n=alice,r=short", AuthFailureKind.MALFORMED),
        (b"n,,n=alice,r=", AuthFailureKind.MALFORMED),
        (b"n,,n=alice,r=client nonce", AuthFailureKind.MALFORMED),
        (b"n,,n=alice,r=" + b"x" * 257, AuthFailureKind.MALFORMED),
        (b"n,,n=alice,r=clientnonce,", AuthFailureKind.MALFORMED),
        (b"n,,n=alice,r=clientnonce,ext", AuthFailureKind.MALFORMED),
        (b"n,,n=" + b"x" * 256 + b",r=clientnonce", AuthFailureKind.MALFORMED),
        (b"n,,n=alice,r=clientnonce,x=" + b"x" * SCRAM_BYTES_MAX, AuthFailureKind.MALFORMED),
        (b"n,bob,n=alice,r=clientnonce", AuthFailureKind.MALFORMED),
        (b"n,a=bob,n=alice,r=clientnonce", AuthFailureKind.CREDENTIALS),
        (b"p=tls-unique,,n=alice,r=clientnonce", AuthFailureKind.MECHANISM),
        (b"n,,m=x,n=alice,r=clientnonce", AuthFailureKind.MECHANISM),
        (b"n,,n=alice,r=clientnonce,tokenauth=true", AuthFailureKind.MECHANISM),
    ],
)
def test_first_messages_that_are_refused(token: bytes, kind: AuthFailureKind) -> None:
    with pytest.raises(NotAuthenticated) as raised:
        server().receive(token)
    assert raised.value.kind is kind


@pytest.mark.parametrize(
    "token", [FIRST, b"y,,n=alice,r=clientnonce", b"n,a=alice,n=alice,r=clientnonce", FIRST + b",x=1"]
)
def test_first_messages_that_are_accepted(token: bytes) -> None:
    assert isinstance(server().receive(token), SaslChallenge)


def test_the_header_of_the_first_message_is_bound() -> None:
    """With `y` the client says that it could do channel binding: an attacker must not change that to `n`."""
    scram = server()
    scram.receive(b"y,,n=alice,r=clientnonce")
    with pytest.raises(NotAuthenticated, match="channel binding differs"):
        scram.receive(f"c=biws,r=clientnonce{NONCE},p={base64.b64encode(b'x' * 32).decode()}".encode())


def test_a_failed_exchange_cannot_be_continued() -> None:
    scram = server()
    final, _ = logged(scram)
    with pytest.raises(NotAuthenticated):
        scram.receive(b"nonsense")
    with pytest.raises(NotAuthenticated, match="has ended"):
        scram.receive(final.encode())
    with pytest.raises(NotAuthenticated, match="has ended"):
        scram.resolve(CredentialsAccepted("alice"))


def test_a_finished_exchange_takes_no_second_proof() -> None:
    scram = server()
    final, _ = logged(scram)
    assert isinstance(scram.receive(final.encode()), Authenticated)
    with pytest.raises(NotAuthenticated, match="has ended"):
        scram.receive(final.encode())
