"""Checks TLS files by a handshake in memory: the server's files against a client that trusts the authorities."""

from __future__ import annotations

import ssl
from datetime import datetime

from penstock.core.errors import InvalidConfig
from penstock.node.security.tls_context import TlsPolicy, client_context, server_context
from penstock.node.security.tls_material import TlsMaterial, TlsPaths, inspect_material

_STEPS_MAX = 20


def check_tls(paths: TlsPaths, host: str | None, now: datetime) -> TlsMaterial:
    """Inspect the files, and verify the certificate with the authorities if they are given. Raises InvalidConfig."""
    material = inspect_material(paths, now)
    server = server_context(paths, TlsPolicy(), now)
    if paths.authorities is None:
        if host is not None and host not in material.chain[0].hosts:
            raise InvalidConfig(
                f"the certificate is not for {host!r} but for {', '.join(material.chain[0].hosts) or 'no host'}"
            )
        return material
    client = client_context(
        TlsPaths(authorities=paths.authorities), TlsPolicy(), now, checks_name=host is not None
    )
    try:
        _shake(server, client, host)
    except ssl.SSLCertVerificationError as error:
        raise InvalidConfig(
            f"a client that trusts {paths.authorities} rejects the certificate: {error.verify_message}"
        ) from None
    except ssl.SSLError as error:
        raise InvalidConfig(f"the TLS handshake fails: {error.reason or error}") from None
    return material


def _shake(server: ssl.SSLContext, client: ssl.SSLContext, host: str | None) -> None:
    """A whole handshake without a socket. Raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=host),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    for _ in range(_STEPS_MAX):
        unfinished = []
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                unfinished.append(side)
        if not unfinished:
            return
    raise InvalidConfig("the TLS handshake does not end")
