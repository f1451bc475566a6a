"""Creates TLS contexts for servers and for clients from files: TLS 1.2 or newer, forward secrecy, no tickets.

A ticket could outlive a reload of certificates and authorities. What TLS 1.2 resumes by session id ends with the
context. Connections to brokers are long, so that a full handshake hardly counts.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from penstock.core.errors import InvalidConfig
from penstock.node.security.tls_material import TlsPaths, inspect_material, key_password

CIPHERS_DEFAULT = "ECDHE+AESGCM:ECDHE+CHACHA20"
"""For TLS 1.2, in OpenSSL's notation. TLS 1.3 has only strong ciphers, which OpenSSL chooses."""


class ClientAuth(StrEnum):
    """Whether clients must present a certificate."""

    NONE = "none"
    REQUESTED = "requested"
    """A client may have none; one that is presented must be valid."""
    REQUIRED = "required"


class TlsVersion(StrEnum):
    """The oldest version that is accepted."""

    TLS_1_2 = "TLSv1.2"
    TLS_1_3 = "TLSv1.3"


_VERSIONS = {TlsVersion.TLS_1_2: ssl.TLSVersion.TLSv1_2, TlsVersion.TLS_1_3: ssl.TLSVersion.TLSv1_3}
_VERIFY = {
    ClientAuth.NONE: ssl.CERT_NONE,
    ClientAuth.REQUESTED: ssl.CERT_OPTIONAL,
    ClientAuth.REQUIRED: ssl.CERT_REQUIRED,
}


@dataclass(frozen=True, slots=True)
class TlsPolicy:
    """Versions, ciphers and client certificates of a context."""

    client_auth: ClientAuth = ClientAuth.NONE
    version_min: TlsVersion = TlsVersion.TLS_1_2
    ciphers: str = CIPHERS_DEFAULT
    alpn: tuple[str, ...] = ()
    """Protocols to negotiate, such as `http/1.1`; empty: none."""


def server_context(paths: TlsPaths, policy: TlsPolicy, now: datetime) -> ssl.SSLContext:
    """The context of a listener. Raises InvalidConfig."""
    if paths.certificate is None:
        raise InvalidConfig("TLS: a server needs a certificate and a key")
    if policy.client_auth is not ClientAuth.NONE and paths.authorities is None:
        raise InvalidConfig(
            f"TLS: client certificates are {policy.client_auth.value}, but no authorities are set to verify them with"
        )
    inspect_material(paths, now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= (
        ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_TICKET | ssl.OP_SINGLE_ECDH_USE
    )
    context.num_tickets = 0
    context.verify_mode = _VERIFY[policy.client_auth]
    _configure(context, paths, policy)
    return context


def client_context(
    paths: TlsPaths, policy: TlsPolicy, now: datetime, *, checks_name: bool = True
) -> ssl.SSLContext:
    """The context of a client: it verifies the server against the given authorities, else those of the system. Raises
    InvalidConfig."""
    inspect_material(paths, now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = checks_name
    if paths.authorities is None:
        context.load_default_certs()
    _configure(context, paths, policy)
    return context


def _configure(context: ssl.SSLContext, paths: TlsPaths, policy: TlsPolicy) -> None:
    context.minimum_version = _VERSIONS[policy.version_min]
    context.options |= ssl.OP_NO_COMPRESSION
    try:
        context.set_ciphers(policy.ciphers)
    except ssl.SSLError:
        raise InvalidConfig(
            f"TLS ciphers: OpenSSL knows none of {policy.ciphers!r}; `openssl ciphers -v` lists them"
        ) from None
    if policy.alpn:
        context.set_alpn_protocols(list(policy.alpn))
    try:
        if paths.certificate is not None:
            password = key_password(paths)
            context.load_cert_chain(
                paths.certificate, paths.key, None if password is None else password.reveal()
            )
        if paths.authorities is not None:
            context.load_verify_locations(paths.authorities)
    except (ssl.SSLError, OSError) as error:
        # The files were inspected before; what remains are files that change meanwhile and rules of OpenSSL.
        raise InvalidConfig(
            f"TLS: OpenSSL rejects {', '.join(map(str, paths.listed()))}: {getattr(error, 'reason', None) or error}"
        ) from None
