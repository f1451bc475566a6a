"""HTTP connections to a broker with the security of its clients: TLS, and the Authorization header. No retries."""

from __future__ import annotations

import base64
import ssl
from dataclasses import replace
from http.client import HTTPConnection, HTTPSConnection

from penstock.client.access import Security
from penstock.client.tls import tls_failure
from penstock.core.model import Address


def http_connection(address: Address, security: Security, timeout_s: float) -> HTTPConnection:
    """A connected client. Raises TlsFailed, BadArgument, OSError."""
    security.check_secrecy(address.host)
    if security.encryption is None:
        connection = HTTPConnection(address.host, address.port, timeout=timeout_s)
    else:
        connection = HTTPSConnection(
            address.host, address.port, timeout=timeout_s, context=security.encryption.context()
        )
    try:
        connection.connect()
    except ssl.SSLError as error:
        connection.close()
        raise tls_failure(address, error) from error
    return connection


def authorization(security: Security, address: Address) -> dict[str, str]:
    """The Authorization header, if there are credentials. Raises BadArgument if it would be sent in plain text."""
    found = security.credentials
    if found is None:
        return {}
    if found.token is not None:
        value = f"Bearer {found.token.fetch().value}"
    else:
        over_http = replace(found, mechanism="PLAIN")  # Basic sends the password, whatever SASL would do
        replace(security, credentials=over_http).check_secrecy(address.host)
        named = f"{found.username}:{found.password}".encode()
        value = f"Basic {base64.b64encode(named).decode()}"
    return {"Authorization": value}
