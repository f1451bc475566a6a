"""Inspects certificates, keys and authorities before OpenSSL loads them, because its own errors do not say what is
wrong."""

from __future__ import annotations

from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from penstock.core.authentication.distinguished_name import format_name
from penstock.core.authentication.failure import NotAuthenticated
from penstock.core.authentication.secret import Secret
from penstock.core.errors import InvalidConfig
from penstock.node.security.private_file import read_private, read_public
from penstock.node.security.secret_source import load_secret_file
from penstock.wire.x509.name import decode_rdns

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

PEM_BYTES_MAX = 1 << 20
RSA_BITS_MIN = 2048
CERTIFICATE, KEY, AUTHORITIES, KEY_PASSWORD = (
    "TLS certificate",
    "TLS key",
    "TLS authorities",
    "TLS key password",
)
"""How errors name the files."""
_PEM, _PEM_CERTIFICATE, _PEM_KEY = b"-----BEGIN ", b"-----BEGIN CERTIFICATE-----", b"PRIVATE KEY-----"


class TlsPaths(NamedTuple):
    """Files of one side, in PEM format. The certificate file holds the chain: first its own, then intermediates."""

    certificate: Path | None = None
    key: Path | None = None
    authorities: Path | None = None
    """Certificates of the authorities that the other side's certificate may come from."""
    key_password: Path | None = None
    """A private file with the password of an encrypted key."""

    def listed(self) -> tuple[Path, ...]:
        return tuple(path for path in self if path is not None)


class CertificateFacts(NamedTuple):
    """What people want to know about a certificate."""

    subject: str
    issuer: str
    serial: str
    not_before: datetime
    not_after: datetime
    hosts: tuple[str, ...]
    """DNS names and addresses in the subject alternative name."""
    is_authority: bool

    def days_left(self, now: datetime) -> int:
        """Whole days until it expires; negative once it has."""
        return (self.not_after - now).days


class TlsMaterial(NamedTuple):
    """What was found in the files."""

    chain: tuple[CertificateFacts, ...]
    authorities: tuple[CertificateFacts, ...]


def inspect_material(paths: TlsPaths, now: datetime) -> TlsMaterial:
    """Check all files and that they belong together. Raises InvalidConfig with the cause and the remedy."""
    chain: tuple[CertificateFacts, ...] = ()
    if paths.certificate is not None:
        if paths.key is None:
            raise InvalidConfig(f"{CERTIFICATE}: {paths.certificate} needs a key: set the key file as well")
        certificates = _load_certificates(paths.certificate, CERTIFICATE)
        key = _load_key(paths.key, key_password(paths))
        _check_pair(paths.certificate, paths.key, certificates[0], key)
        chain = _facts(paths.certificate, CERTIFICATE, certificates)
        _check_chain(paths.certificate, chain)
        _check_validity(paths.certificate, chain, now)
    elif paths.key is not None:
        raise InvalidConfig(f"{KEY}: {paths.key} needs a certificate: set the certificate file as well")
    authorities: tuple[CertificateFacts, ...] = ()
    if paths.authorities is not None:
        loaded = _load_certificates(paths.authorities, AUTHORITIES)
        authorities = _facts(paths.authorities, AUTHORITIES, loaded)
        if all(one.not_after <= now for one in authorities):
            raise InvalidConfig(f"{AUTHORITIES}: every certificate in {paths.authorities} has expired")
    return TlsMaterial(chain, authorities)


def key_password(paths: TlsPaths) -> Secret | None:
    """The password of the key. Raises InvalidConfig."""
    return None if paths.key_password is None else load_secret_file(paths.key_password, KEY_PASSWORD)


def certificate_facts(certificate: x509.Certificate) -> CertificateFacts:
    """The facts of a parsed certificate."""
    from cryptography import x509

    hosts: tuple[str, ...] = ()
    is_authority = False
    for extension in certificate.extensions:
        if isinstance(extension.value, x509.SubjectAlternativeName):
            names = extension.value.get_values_for_type(x509.DNSName)
            addresses = extension.value.get_values_for_type(x509.IPAddress)
            hosts = (*names, *map(str, addresses))
        elif isinstance(extension.value, x509.BasicConstraints):
            is_authority = extension.value.ca
    return CertificateFacts(
        subject=format_name(decode_rdns(certificate.subject.public_bytes())),
        issuer=format_name(decode_rdns(certificate.issuer.public_bytes())),
        serial=f"{certificate.serial_number:x}",
        not_before=certificate.not_valid_before_utc,
        not_after=certificate.not_valid_after_utc,
        hosts=hosts,
        is_authority=is_authority,
    )


def _facts(path: Path, what: str, certificates: list[x509.Certificate]) -> tuple[CertificateFacts, ...]:
    from cryptography import x509

    try:
        return tuple(map(certificate_facts, certificates))
    except (
        ValueError,
        x509.DuplicateExtension,
        x509.UnsupportedGeneralNameType,
        NotAuthenticated,
    ) as error:
        raise InvalidConfig(f"{what}: {path} has a certificate that is not valid: {error}") from None


def _load_certificates(path: Path, what: str) -> list[x509.Certificate]:
    from cryptography import x509

    content = read_public(path, what, PEM_BYTES_MAX)
    if _PEM_CERTIFICATE not in content:
        hint = (
            "it holds a private key: were the two files swapped?"
            if _PEM_KEY in content
            else "convert it with `openssl x509 -inform der`"
            if _PEM not in content
            else "expected BEGIN CERTIFICATE"
        )
        raise InvalidConfig(f"{what}: {path} is not a certificate in PEM format; {hint}")
    try:
        return x509.load_pem_x509_certificates(content)
    except ValueError as error:
        raise InvalidConfig(f"{what}: {path} has a damaged certificate: {error}") from None


def _load_key(path: Path, password: Secret | None) -> PrivateKeyTypes:
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    content = read_private(path, KEY, PEM_BYTES_MAX)
    if _PEM_KEY not in content:
        hint = (
            "it holds a certificate: were the two files swapped?"
            if _PEM_CERTIFICATE in content
            else "convert it with `openssl pkey -inform der`"
        )
        raise InvalidConfig(f"{KEY}: {path} is not a private key in PEM format; {hint}")
    is_encrypted = b"ENCRYPTED" in content
    if is_encrypted and password is None:
        raise InvalidConfig(f"{KEY}: {path} is encrypted: set the file with its password")
    if not is_encrypted and password is not None:
        raise InvalidConfig(f"{KEY}: {path} is not encrypted, but a password is set: remove one of the two")
    try:
        return load_pem_private_key(content, None if password is None else password.reveal())
    except (ValueError, TypeError, UnsupportedAlgorithm) as error:
        why = "the password is wrong or the file is damaged" if is_encrypted else f"it is damaged: {error}"
        raise InvalidConfig(f"{KEY}: cannot load {path}: {why}") from None


def _check_pair(
    certificate_path: Path, key_path: Path, certificate: x509.Certificate, key: PrivateKeyTypes
) -> None:
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    encoding = Encoding.DER, PublicFormat.SubjectPublicKeyInfo
    if certificate.public_key().public_bytes(*encoding) != key.public_key().public_bytes(*encoding):
        raise InvalidConfig(
            f"{KEY}: {key_path} does not belong to the first certificate in {certificate_path}; a chain starts with the"
            " server's own certificate"
        )
    if isinstance(key, rsa.RSAPrivateKey) and key.key_size < RSA_BITS_MIN:
        raise InvalidConfig(
            f"{KEY}: {key_path} has {key.key_size} bits; RSA keys need {RSA_BITS_MIN} or more"
        )


def _check_chain(path: Path, chain: tuple[CertificateFacts, ...]) -> None:
    for lower, upper in pairwise(chain):
        if lower.issuer != upper.subject:
            raise InvalidConfig(
                f"{CERTIFICATE}: the chain in {path} is out of order: {lower.subject!r} was issued by {lower.issuer!r},"
                f" but {upper.subject!r} follows"
            )


def _check_validity(path: Path, chain: tuple[CertificateFacts, ...], now: datetime) -> None:
    for one in chain:
        if one.not_after <= now:
            raise InvalidConfig(
                f"{CERTIFICATE}: {one.subject!r} in {path} expired on {one.not_after:%Y-%m-%d %H:%M} UTC: renew it"
            )
        if one.not_before > now:
            raise InvalidConfig(
                f"{CERTIFICATE}: {one.subject!r} in {path} is not valid before {one.not_before:%Y-%m-%d %H:%M} UTC:"
                " check the clock of this machine"
            )
