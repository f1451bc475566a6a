"""TLS on a connected socket, and what a failed handshake means: cause and remedy. Knows no protocol above TLS."""

from __future__ import annotations

import socket
import ssl

from penstock.client.access import Encryption
from penstock.client.errors import TlsFailed
from penstock.core.model import Address

PROBE_S_MAX = 2.0
_HOST_MISMATCH, _ADDRESS_MISMATCH, _EXPIRED = 62, 64, 10
"""Codes of OpenSSL's certificate verification."""


def start_tls(opened: socket.socket, address: Address, encryption: Encryption) -> ssl.SSLSocket:
    """Encrypt a connection; closes the socket if that fails. Raises TlsFailed, OSError if the peer is gone."""
    context = encryption.context()
    try:
        return context.wrap_socket(opened, server_hostname=address.host)
    except OSError as error:
        opened.close()
        if isinstance(error, ssl.SSLError) and not isinstance(
            error, ssl.SSLEOFError | ssl.SSLZeroReturnError
        ):
            raise tls_failure(address, error) from error
        raise  # the connection was lost, which says nothing about TLS


def tls_failure(address: Address, error: ssl.SSLError) -> TlsFailed:
    """The cause and the remedy of a failed handshake or of an alert that follows it."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return TlsFailed(_certificate_problem(address, error), code="CERTIFICATE")
    reason = (error.reason or str(error)).replace("_", " ").lower()
    if "alert" in reason and any(word in reason for word in ("certificate", "unknown ca", "decrypt")):
        return TlsFailed(
            f"{address} rejected the client certificate or requires one: {reason}. Set tls_cert and tls_key to a "
            "certificate of a CA that the broker trusts.",
            code="CLIENT_CERTIFICATE",
        )
    return TlsFailed(
        f"TLS handshake with {address} failed: {reason}. Check that the port expects TLS; if it does not, turn "
        "off tls.",
        code="HANDSHAKE",
    )


def _certificate_problem(address: Address, error: ssl.SSLCertVerificationError) -> str:
    said = str(error.verify_message).rstrip(".")
    if error.verify_code in (_HOST_MISMATCH, _ADDRESS_MISMATCH):
        return (
            f"the certificate of {address} is for another host: {said}. Use a host name that is in the certificate, "
            "or skip this check with tls_verify=False."
        )
    if error.verify_code == _EXPIRED:
        return f"the certificate of {address} has expired: renew it on the broker. ({said})"
    return f"the certificate of {address} is not trusted: {said}. Set tls_ca to the file of the CA that issued it."


def speaks_tls(address: Address) -> bool:
    """Whether the port completes or answers a TLS handshake. Verifies nothing and sends no data."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        with socket.create_connection(address, timeout=PROBE_S_MAX) as opened, context.wrap_socket(opened):
            return True
    except ssl.SSLEOFError:
        return False
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except OSError:
        return False
