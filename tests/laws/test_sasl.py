"""Laws of SASL: whatever bytes come, there is an answer or the one error; only the right password logs in."""

from __future__ import annotations

import contextlib

from hypothesis import example, given
from hypothesis import strategies as st

from penstock.client.access import Credentials
from penstock.client.errors import Refused
from penstock.client.raw.sasl import exchange
from penstock.core.authentication.failure import NotAuthenticated
from penstock.core.authentication.scram import CredentialLookup, ScramMechanism
from penstock.node.runtime.clock import SystemRng
from penstock.wire.sasl.dialogue import SaslDialogue
from penstock.wire.sasl.offer import MECHANISMS, SaslOffer
from penstock.wire.sasl.scram import ScramExchange
from penstock.wire.sasl.steps import (
    Authenticated,
    CheckBearer,
    CheckPassword,
    CredentialsAccepted,
    CredentialsRejected,
)
from penstock.wire.x509.name import decode_rdns
from security_samples import LOOKUP, NONCE, SampleUsers, log_in

OFFER = SaslOffer(MECHANISMS, LOOKUP, SystemRng())
FRAGMENTS = st.sampled_from(
    rb"n|,|=|n=alice|r=|clientnonce|c=biws|p=|auth=|Bearer |a=|=2C|tokenauth=true|y|{}|m=|alice|AAAA".split(
        b"|"
    )
)
BYTES = st.sampled_from([b"\0", b"\x01", b"\xff"])
TOKENS = st.one_of(st.binary(max_size=200), st.lists(st.one_of(FRAGMENTS, BYTES), max_size=12).map(b"".join))
NAMES = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), min_size=1, max_size=40)


@given(
    st.sampled_from(MECHANISMS), st.integers(0, 1), st.lists(TOKENS, min_size=1, max_size=4), st.booleans()
)
@example("OAUTHBEARER", 1, [b"n,,\x01auth=Bearer x\x01\x01", b"\x01"], False)
@example("SCRAM-SHA-256", 0, [b"n,,n=alice,r=clientnonce", b"c=biws,r=clientnonce" + NONCE.encode()], True)
def test_whatever_comes_is_answered_or_refused(
    mechanism: str, version: int, tokens: list[bytes], is_accepted: bool
) -> None:
    """NotAuthenticated is the only error, and nobody is authenticated without a verdict or a proof."""
    dialogue = SaslDialogue(MECHANISMS, OFFER.start)
    dialogue.handshake(mechanism, version)
    with contextlib.suppress(NotAuthenticated):
        for token in tokens:
            step = dialogue.receive(token, 0)
            if isinstance(step, CheckPassword | CheckBearer):
                user = step.user if isinstance(step, CheckPassword) else "alice"
                step = dialogue.resolve(
                    CredentialsAccepted(user) if is_accepted else CredentialsRejected("no"), 0
                )
            assert not isinstance(step, Authenticated) or (is_accepted and "SCRAM" not in mechanism)


@given(st.sampled_from(ScramMechanism), st.integers(0, 1), st.integers(0), st.integers(1, 255))
def test_a_changed_byte_never_logs_in(mechanism: ScramMechanism, index: int, place: int, flip: int) -> None:
    """Except in the first message, where it is another login: as another user, or with another nonce."""
    server = ScramExchange(mechanism, LOOKUP, NONCE)
    client = exchange(Credentials(mechanism.value, "alice", "wonderland"))
    tokens = [next(client)]

    def changed(token: bytes) -> bytes:
        at = place % len(token)
        return token[:at] + bytes([token[at] ^ flip]) + token[at + 1 :]

    with contextlib.suppress(NotAuthenticated, Refused):
        challenge = server.receive(changed(tokens[0]) if index == 0 else tokens[0])
        final = client.send(challenge.token)
        step = server.receive(changed(final) if index == 1 else final)
        raise AssertionError(f"{step} after a change")


@given(NAMES, st.text(min_size=1, max_size=40).filter(lambda text: text.isprintable()), st.booleans())
def test_exactly_the_right_password_logs_in(user: str, password: str, is_right: bool) -> None:
    if not user.isprintable():
        return
    lookup = CredentialLookup(SampleUsers({user: password}), b"k" * 32)
    server = ScramExchange(ScramMechanism.SHA_256, lookup, NONCE)
    try:
        step = log_in(server, "SCRAM-SHA-256", user, password if is_right else password + "x")
    except NotAuthenticated:
        assert not is_right
    else:
        assert is_right
        assert step.user == user


@given(
    st.one_of(
        st.binary(max_size=60), st.binary(max_size=60).map(lambda rest: b"0" + bytes([len(rest)]) + rest)
    )
)
def test_any_bytes_are_a_name_or_refused(der: bytes) -> None:
    with contextlib.suppress(NotAuthenticated):
        assert isinstance(decode_rdns(der), list)
