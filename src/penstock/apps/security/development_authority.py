"""A certificate authority for development: issues certificates of servers and clients. Never writes a file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from ipaddress import ip_address
from typing import NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from penstock.core.errors import InvalidConfig
from penstock.node.security.tls_material import CertificateFacts, certificate_facts

AUTHORITY_DAYS = 3650
ALWAYS_HOSTS = ("localhost", "127.0.0.1", "::1")
COMMON_NAME_CHARS_MAX = 64
_CLOCK_SKEW = timedelta(hours=1)
"""Certificates are valid from before they are made: clocks of containers and machines differ."""
_HOST = re.compile(r"(?:\*\.)?(?!-)[A-Za-z0-9_-]{1,63}(?:\.(?!-)[A-Za-z0-9_-]{1,63})*\.?")
_HOST_CHARS_MAX = 253


class IssuedCertificate(NamedTuple):
    """A certificate and its key, in PEM format."""

    certificate: bytes
    key: bytes
    facts: CertificateFacts

    def __repr__(self) -> str:
        """The key must not end up in a log."""
        return f"IssuedCertificate({self.facts.subject!r})"


class DevelopmentAuthority:
    """A new authority with a key of its own."""

    def __init__(self, now: datetime) -> None:
        self._now = now
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _name("Penstock development CA")
        self._not_after = now + timedelta(days=AUTHORITY_DAYS)
        certificate = (
            self._builder(self._name, self._key, self._not_after)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(_key_usage(is_authority=True), critical=True)
            .sign(self._key, hashes.SHA256())
        )
        self.issued = _issued(certificate, self._key)
        """The authority's own certificate and key."""

    def issue_server(self, hosts: Sequence[str], days: int) -> IssuedCertificate:
        """A certificate for a broker under these names. Brokers are clients of each other, so it serves both. Raises
        InvalidConfig."""
        names = [_general_name(host) for host in dict.fromkeys((*hosts, *ALWAYS_HOSTS))]
        usage = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._issue((hosts or ALWAYS_HOSTS)[0], usage, days, names)

    def issue_client(self, name: str, days: int) -> IssuedCertificate:
        """A certificate for a client: the principal is `User:CN=<name>` unless rules map it."""
        return self._issue(name, [ExtendedKeyUsageOID.CLIENT_AUTH], days, [])

    def _issue(
        self,
        common_name: str,
        usage: list[x509.ObjectIdentifier],
        days: int,
        names: Sequence[x509.GeneralName],
    ) -> IssuedCertificate:
        key = ec.generate_private_key(ec.SECP256R1())
        not_after = min(self._now + timedelta(days=days), self._not_after)
        builder = (
            self._builder(_name(common_name), key, not_after)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_key_usage(is_authority=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage(usage), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return _issued(builder.sign(self._key, hashes.SHA256()), key)

    def _builder(
        self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, not_after: datetime
    ) -> x509.CertificateBuilder:
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(self._now - _CLOCK_SKEW)
            .not_valid_after(not_after)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        )


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name[:COMMON_NAME_CHARS_MAX])])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        pass
    if len(host) > _HOST_CHARS_MAX or not _HOST.fullmatch(host):
        raise InvalidConfig(f"{host!r} is not a host name or address; give it without a port")
    return x509.DNSName(host.rstrip("."))


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not is_authority,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _issued(certificate: x509.Certificate, key: ec.EllipticCurvePrivateKey) -> IssuedCertificate:
    return IssuedCertificate(
        certificate.public_bytes(Encoding.PEM),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()),
        certificate_facts(certificate),
    )
