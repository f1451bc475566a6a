"""SASL tokens, bearer tokens, key sets and client certificates: what anybody may send before it has proven anything."""

from __future__ import annotations

from random import Random

from fuzz.target import Target
from penstock.core.authentication.failure import NotAuthenticated
from penstock.core.authentication.scram import ScramMechanism
from penstock.core.authentication.secret import Secret
from penstock.core.errors import InvalidConfig
from penstock.node.security.bearer_token import TokenPolicy, TokenRejected, validate_token
from penstock.node.security.key_set import decode_key_set
from penstock.node.security.peer_certificate import decode_peer_certificate
from penstock.wire.sasl.oauthbearer import OauthBearerExchange
from penstock.wire.sasl.plain import PlainExchange
from penstock.wire.sasl.scram import ScramExchange
from penstock.wire.sasl.steps import SaslExchange
from penstock.wire.x509.name import decode_rdns
from security_samples import AUDIENCE, ISSUER, LOOKUP, NONCE, SampleProvider, claims_at

NOW_S = 1_750_000_000
POLICY = TokenPolicy(ISSUER, (AUDIENCE,))
PROVIDER = SampleProvider()
KEYS = decode_key_set(PROVIDER.key_set())
TOKEN = PROVIDER.token(claims_at(NOW_S), "ec", "ES256").reveal()
NAME = bytes.fromhex("30233110300e06035504030c07612c62203d2063310f300d060355040a0c064578616d706c")
FIRST = b"n,,n=alice,r=clientnonce"
PROOF = b"A" * 43 + b"="


def make_token(rng: Random) -> bytes:
    final = b"c=biws,r=clientnonce" + NONCE.encode() + b",p=" + PROOF
    return rng.choice((b"\0alice\0wonder", FIRST, final, b"n,,\x01auth=Bearer " + TOKEN + b"\x01k=v\x01\x01"))


def read_token(content: bytes) -> str:
    """Each mechanism by itself, and the second message of SCRAM. Nobody is authenticated by a guess."""
    second = ScramExchange(ScramMechanism.SHA_256, LOOKUP, NONCE)
    second.receive(FIRST)
    exchanges: list[SaslExchange] = [PlainExchange(), OauthBearerExchange(), second]
    exchanges.append(ScramExchange(ScramMechanism.SHA_512, LOOKUP, NONCE))
    return ", ".join(_receive(one, content) for one in exchanges)


def _receive(exchange: SaslExchange, content: bytes) -> str:
    try:
        step = type(exchange.receive(content)).__name__
    except NotAuthenticated as error:
        return error.kind.value
    assert step != "Authenticated", "accepted without a proof"
    return step


def read_bearer(content: bytes) -> str:
    try:
        validate_token(Secret(content), KEYS, POLICY, NOW_S * 1000)
    except TokenRejected as error:
        return type(error).__name__
    assert content == TOKEN, "accepted a changed token"
    return "accepted"


def read_key_set(content: bytes) -> str:
    try:
        return f"{min(len(decode_key_set(content)), 1)} or more keys"
    except InvalidConfig:
        return "refused"


def read_names(content: bytes) -> str:
    try:
        decode_rdns(content)
    except NotAuthenticated:
        return "refused"
    return "read"


def read_certificate(content: bytes) -> str:
    try:
        decode_peer_certificate(content)
    except NotAuthenticated:
        return "refused"
    return "read"


def make_certificate(rng: Random) -> bytes:
    return rng.choice(_CERTIFICATES)


def _certificates() -> list[bytes]:
    from datetime import UTC, datetime
    from ssl import PEM_cert_to_DER_cert

    from penstock.apps.security.development_authority import DevelopmentAuthority

    authority = DevelopmentAuthority(datetime.fromtimestamp(NOW_S, UTC))
    issued = authority.issued, authority.issue_server(["broker1"], 9), authority.issue_client("alice", 9)
    return [PEM_cert_to_DER_cert(one.certificate.decode()) for one in issued]


_CERTIFICATES = _certificates()

TARGETS = (
    Target("SASL tokens", make_token, read_token),
    Target("bearer tokens", lambda rng: TOKEN, read_bearer),
    Target("key sets", lambda rng: PROVIDER.key_set(), read_key_set),
    Target("names in certificates", lambda rng: NAME, read_names),
    Target("client certificates", make_certificate, read_certificate),
)
