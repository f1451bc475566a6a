"""TLS contexts in real handshakes: versions, client certificates, names, and the user that a certificate names."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.core.authentication.principal_rules import PrincipalRules
from penstock.core.errors import InvalidConfig
from penstock.node.security.peer_certificate import CertificateName, certificate_user
from penstock.node.security.private_file import write_private
from penstock.node.security.tls_context import (
    ClientAuth,
    TlsPolicy,
    TlsVersion,
    client_context,
    server_context,
)
from penstock.node.security.tls_material import TlsPaths
from security_samples import client_paths, make_tls_files, server_paths
from tls_peers import EchoClient, EchoServer, connect_again, echo_server, is_served

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tls_files(tmp_path_factory.mktemp("tls") / "files", "broker1")


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same names from another authority."""
    return make_tls_files(tmp_path_factory.mktemp("tls") / "strangers", "broker1")


def serving(
    files: Path, story: Callable[[EchoServer], Awaitable[None]], options: TlsPolicy | None = None
) -> None:
    async def run() -> None:
        async with echo_server(server_context(server_paths(files), options or TlsPolicy(), NOW)) as server:
            await story(server)

    asyncio.run(run())


def client(files: Path, name: str | None = None, options: TlsPolicy | None = None) -> ssl.SSLContext:
    return client_context(client_paths(files, name), options or TlsPolicy(), NOW)


def test_a_handshake_without_client_certificates(files: Path) -> None:
    async def story(server: EchoServer) -> None:
        one = await EchoClient.open(server.port, client(files))
        assert await one.echo(b"hi\n") == b"hi\n"
        assert one.tls.version() == "TLSv1.3"
        one.close()
        assert await is_served(server.port, client(files, "client"))
        assert server.certificates == [None, None], "certificates are not asked for"

    serving(files, story)


def test_clients_verify_the_server(files: Path, strangers: Path) -> None:
    async def story(server: EchoServer) -> None:
        for host in ("localhost", "127.0.0.1", "::1", "broker1"):
            assert await is_served(server.port, client(files), host)
        assert not await is_served(server.port, client(files), "broker2")
        assert not await is_served(server.port, client(strangers))
        careless = client_context(client_paths(files, None), TlsPolicy(), NOW, checks_name=False)
        assert await is_served(server.port, careless, "broker2")

    serving(files, story)


def test_required_client_certificates(files: Path, strangers: Path) -> None:
    async def story(server: EchoServer) -> None:
        assert await is_served(server.port, client(files, "client"))
        assert not await is_served(server.port, client(files))
        impostor = client_paths(strangers)._replace(authorities=files / "ca.crt")
        assert not await is_served(server.port, client_context(impostor, TlsPolicy(), NOW))

    serving(files, story, TlsPolicy(ClientAuth.REQUIRED))


def test_requested_client_certificates(files: Path, strangers: Path) -> None:
    async def story(server: EchoServer) -> None:
        assert await is_served(server.port, client(files))
        assert await is_served(server.port, client(files, "client"))
        impostor = client_paths(strangers)._replace(authorities=files / "ca.crt")
        assert not await is_served(server.port, client_context(impostor, TlsPolicy(), NOW))
        assert [one is None for one in server.certificates] == [True, False]

    serving(files, story, TlsPolicy(ClientAuth.REQUESTED))


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_the_user_of_a_client_certificate(files: Path, version: ssl.TLSVersion) -> None:
    async def story(server: EchoServer) -> None:
        for name in ("client", "admin"):
            context = client(files, name)
            context.maximum_version = version
            assert await is_served(server.port, context)
        users = []
        for der in server.certificates:
            assert der is not None
            users.append(certificate_user(der, CertificateName.SUBJECT, PrincipalRules()))
            users.append(
                certificate_user(der, CertificateName.SUBJECT, PrincipalRules("RULE:^CN=(.*)$/$1/U"))
            )
        assert users == ["CN=client", "CLIENT", "CN=admin", "ADMIN"]

    serving(files, story, TlsPolicy(ClientAuth.REQUIRED))


def at_most(context: ssl.SSLContext, version: ssl.TLSVersion) -> ssl.SSLContext:
    context.set_ciphers("ALL:@SECLEVEL=0")
    context.minimum_version = ssl.TLSVersion.TLSv1
    context.maximum_version = version
    return context


@pytest.mark.filterwarnings("ignore:ssl.TLSVersion")
def test_old_versions_are_refused(files: Path) -> None:
    async def story(server: EchoServer) -> None:
        assert not await is_served(server.port, at_most(client(files), ssl.TLSVersion.TLSv1_1))
        assert await is_served(server.port, at_most(client(files), ssl.TLSVersion.TLSv1_2))

    serving(files, story)


def test_tls_1_3_can_be_required(files: Path) -> None:
    async def story(server: EchoServer) -> None:
        context = client(files)
        assert await is_served(server.port, context)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        assert not await is_served(server.port, context)

    serving(files, story, TlsPolicy(version_min=TlsVersion.TLS_1_3))


def test_ciphers_without_forward_secrecy_are_refused(files: Path) -> None:
    async def story(server: EchoServer) -> None:
        context = client(files)
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("ECDHE+AES+SHA:!AESGCM")
        assert not await is_served(server.port, context)

    serving(files, story)


def test_no_tickets_are_sent(files: Path) -> None:
    async def story(server: EchoServer) -> None:
        session, _ = await asyncio.to_thread(connect_again, server.port, client(files), None)
        assert session is None or not session.has_ticket

    serving(files, story)


def test_protocols_are_negotiated(files: Path) -> None:
    async def story(server: EchoServer) -> None:
        for offered, chosen in ((("h2", "http/1.1"), "http/1.1"), ((), None), (("h2",), None)):
            one = await EchoClient.open(server.port, client(files, options=TlsPolicy(alpn=offered)))
            assert one.tls.selected_alpn_protocol() == chosen
            one.close()

    serving(files, story, TlsPolicy(alpn=("http/1.1",)))


def test_encrypted_keys_are_loaded(files: Path, tmp_path: Path) -> None:
    write_private(tmp_path / "password", b"open sesame")
    subprocess.run(
        [
            *("openssl", "pkey", "-in", files / "server.key", "-out", tmp_path / "server.key"),
            *("-aes256", "-passout", f"file:{tmp_path / 'password'}"),
        ],
        check=True,
    )
    (tmp_path / "server.key").chmod(0o600)
    paths = TlsPaths(files / "server.crt", tmp_path / "server.key", None, tmp_path / "password")

    async def run() -> None:
        async with echo_server(server_context(paths, TlsPolicy(), NOW)) as server:
            assert await is_served(server.port, client(files))

    asyncio.run(run())


def test_settings_that_cannot_work(files: Path) -> None:
    bare = TlsPaths(files / "server.crt", files / "server.key")
    with pytest.raises(InvalidConfig, match="client certificates are required, but no authorities are set"):
        server_context(bare, TlsPolicy(ClientAuth.REQUIRED), NOW)
    with pytest.raises(InvalidConfig, match="a server needs a certificate"):
        server_context(TlsPaths(), TlsPolicy(), NOW)
    with pytest.raises(InvalidConfig, match="OpenSSL knows none of 'ROT13'"):
        server_context(bare, TlsPolicy(ciphers="ROT13"), NOW)


def test_a_client_without_authorities_uses_those_of_the_system(files: Path) -> None:
    context = client_context(TlsPaths(), TlsPolicy(), NOW)
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert context.check_hostname
    assert context.minimum_version is ssl.TLSVersion.TLSv1_2
