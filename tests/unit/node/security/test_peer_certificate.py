"""Names of client certificates: subject and alternative names, and certificates that name nobody."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID
from hypothesis import given
from hypothesis import strategies as st

from penstock.core.authentication.failure import NotAuthenticated
from penstock.core.authentication.principal_rules import PrincipalRules
from penstock.node.security.peer_certificate import (
    CertificateName,
    certificate_user,
    decode_peer_certificate,
)

KEY = ec.generate_private_key(ec.SECP256R1())


def certificate(names: Sequence[x509.GeneralName] = (), common_name: str = "alice") -> bytes:
    subject = x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Example, Inc."),
            x509.NameAttribute(NameOID.COMMON_NAME, common_name),
        ]
    )
    now = datetime.now(UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(KEY.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now)
        .not_valid_after(now + timedelta(days=1))
    )
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.DER)


SPIFFE = x509.UniformResourceIdentifier("spiffe://example.org/ns/app")
DER = certificate([SPIFFE, x509.DNSName("app.internal"), x509.RFC822Name("a@b.c")])


@pytest.mark.parametrize(
    ("name", "user"),
    [
        (CertificateName.SUBJECT, r"CN=alice,O=Example\, Inc."),
        (CertificateName.URI, "spiffe://example.org/ns/app"),
        (CertificateName.DNS, "app.internal"),
        (CertificateName.EMAIL, "a@b.c"),
    ],
)
def test_each_name_can_be_the_user(name: CertificateName, user: str) -> None:
    assert certificate_user(DER, name, PrincipalRules()) == user


def test_rules_apply_to_every_name() -> None:
    rules = PrincipalRules(r"RULE:^spiffe:\/\/example.org\/ns\/(.*)$/$1/U")
    assert certificate_user(DER, CertificateName.URI, rules) == "APP"
    with pytest.raises(NotAuthenticated):
        certificate_user(DER, CertificateName.SUBJECT, rules)


@pytest.mark.parametrize(
    "names", [[], [SPIFFE, x509.UniformResourceIdentifier("spiffe://example.org/ns/root")]]
)
def test_exactly_one_alternative_name_counts(names: list[x509.GeneralName]) -> None:
    with pytest.raises(NotAuthenticated, match="does not name a user"):
        certificate_user(certificate(names), CertificateName.URI, PrincipalRules())


@pytest.mark.parametrize("der", [b"", b"nonsense", b"\x30\x82", b"x" * 70_000, DER[:-1], DER + b"\0"])
def test_what_is_no_certificate_is_refused(der: bytes) -> None:
    with pytest.raises(NotAuthenticated):
        decode_peer_certificate(der)


@given(st.integers(0, len(DER) - 1), st.integers(1, 255))
def test_damaged_certificates_are_read_or_refused(place: int, flip: int) -> None:
    """The handshake verifies signatures; here only the parser is at stake."""
    with contextlib.suppress(NotAuthenticated):
        decode_peer_certificate(DER[:place] + bytes([DER[place] ^ flip]) + DER[place + 1 :])
