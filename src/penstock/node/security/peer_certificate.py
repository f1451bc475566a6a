"""The user that a TLS client certificate names. The handshake has verified the certificate; this only reads it."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from penstock.core.authentication.distinguished_name import format_name
from penstock.core.authentication.failure import AuthFailureKind, NotAuthenticated
from penstock.core.authentication.principal_rules import PrincipalRules
from penstock.wire.x509.name import decode_rdns

CERTIFICATE_BYTES_MAX = 64 * 1024


class CertificateName(StrEnum):
    """Which name of the certificate is the user's."""

    SUBJECT = "subject"
    """The distinguished name, as in Kafka."""
    DNS = "dns"
    URI = "uri"
    """Such as a SPIFFE id."""
    EMAIL = "email"


class PeerCertificate(NamedTuple):
    """The names in a certificate."""

    subject: str
    dns: tuple[str, ...] = ()
    uri: tuple[str, ...] = ()
    email: tuple[str, ...] = ()


def decode_peer_certificate(der: bytes) -> PeerCertificate:
    """The names in a certificate in DER, as `getpeercert(True)` returns it. Raises NotAuthenticated."""
    from cryptography import x509

    if len(der) > CERTIFICATE_BYTES_MAX:
        raise _invalid(f"it has over {CERTIFICATE_BYTES_MAX} bytes")
    try:
        certificate = x509.load_der_x509_certificate(der)
        subject = certificate.subject.public_bytes()
        names = next(
            (
                one.value
                for one in certificate.extensions
                if isinstance(one.value, x509.SubjectAlternativeName)
            ),
            (),
        )
    except (
        ValueError,
        TypeError,
        x509.InvalidVersion,
        x509.DuplicateExtension,
        x509.UnsupportedGeneralNameType,
    ) as error:
        raise _invalid(str(error)) from None
    return PeerCertificate(
        format_name(decode_rdns(subject)),
        tuple(one.value for one in names if isinstance(one, x509.DNSName)),
        tuple(one.value for one in names if isinstance(one, x509.UniformResourceIdentifier)),
        tuple(one.value for one in names if isinstance(one, x509.RFC822Name)),
    )


def certificate_user(der: bytes, name: CertificateName, rules: PrincipalRules) -> str:
    """The user name of a client certificate. Raises NotAuthenticated: also if several names could be meant."""
    certificate = decode_peer_certificate(der)
    if name is CertificateName.SUBJECT:
        return rules.user(certificate.subject)
    found: tuple[str, ...] = getattr(certificate, name.value)
    if len(found) != 1:
        raise _invalid(f"it has {len(found)} alternative names of the type {name.value}, expected one")
    return rules.user(found[0])


def _invalid(why: str) -> NotAuthenticated:
    return NotAuthenticated(
        AuthFailureKind.CREDENTIALS,
        "authentication failed: the client certificate does not name a user",
        f"client certificate: {why}",
    )
