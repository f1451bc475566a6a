"""Certificates that change while a server runs: open connections go on, new ones get the new files."""

from __future__ import annotations

import asyncio
import logging
import os
import ssl
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
import uvloop

from penstock.core.errors import InvalidConfig
from penstock.node.runtime.workers import ThreadWorkers
from penstock.node.security.private_file import write_private
from penstock.node.security.tls_context import ClientAuth, TlsPolicy, client_context, server_context
from penstock.node.security.tls_reload import CertificateReload
from security_samples import client_paths, make_tls_files, server_paths
from tls_peers import EchoClient, EchoServer, connect_again, echo_server, is_served

Story = Callable[[EchoServer, CertificateReload], Awaitable[None]]


class SetClock:
    """The time is what was set."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC)

    def now_ms(self) -> int:
        return int(self.now.timestamp() * 1000)


def reload_of(
    files: Path, clock: SetClock | None = None, client_auth: ClientAuth = ClientAuth.NONE
) -> CertificateReload:
    make = partial(server_context, server_paths(files), TlsPolicy(client_auth))
    return CertificateReload(server_paths(files), make, clock or SetClock())


def client(files: Path, name: str | None = None) -> ssl.SSLContext:
    return client_context(client_paths(files, name), TlsPolicy(), datetime.now(UTC))


@pytest.fixture
def files(tmp_path: Path) -> Path:
    return make_tls_files(tmp_path / "files")


@pytest.fixture
def renewed(tmp_path: Path) -> Path:
    return make_tls_files(tmp_path / "renewed")


def replace(files: Path, renewed: Path, *names: str) -> None:
    for name in names:
        write_private(files / name, (renewed / name).read_bytes())


def take(reload: CertificateReload) -> bool:
    """Files are taken by the second poll that finds them: then they no longer change."""
    assert not reload.poll()
    return reload.poll()


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run])
def test_new_connections_get_the_new_certificate(
    files: Path, renewed: Path, run: Callable[..., None]
) -> None:
    async def story() -> None:
        reload = reload_of(files)
        old, new = client(files), client(renewed)
        async with echo_server(reload.context) as server:
            opened = await EchoClient.open(server.port, old)
            assert await opened.echo() == b"hello\n"
            replace(files, renewed, "server.crt", "server.key")
            assert take(reload)
            assert await opened.echo(b"still\n") == b"still\n", "an open connection keeps its session"
            assert await is_served(server.port, new)
            assert not await is_served(server.port, old)
            assert await opened.echo(b"again\n") == b"again\n"
            opened.close()
        assert (reload.reloads, reload.failures) == (1, 0)

    run(story())


def test_a_withdrawn_authority_is_no_longer_trusted(files: Path, renewed: Path) -> None:
    async def story() -> None:
        reload = reload_of(files, client_auth=ClientAuth.REQUIRED)
        async with echo_server(reload.context) as server:
            old, new = client(files, "client"), client(renewed, "client")
            assert await is_served(server.port, old)
            replace(files, renewed, "server.crt", "server.key", "ca.crt")
            assert take(reload)
            assert await is_served(server.port, new)
            withdrawn = client_context(
                client_paths(files)._replace(authorities=renewed / "ca.crt"), TlsPolicy(), datetime.now(UTC)
            )
            assert not await is_served(server.port, withdrawn)

    asyncio.run(story())


def test_a_session_ends_with_the_files(files: Path, renewed: Path) -> None:
    """Otherwise a client whose authority was withdrawn could resume."""

    async def story() -> None:
        reload = reload_of(files, client_auth=ClientAuth.REQUIRED)
        context = client(files, "client")
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.load_verify_locations(renewed / "ca.crt")
        async with echo_server(reload.context) as server:
            session, _ = await asyncio.to_thread(connect_again, server.port, context, None)
            session, is_resumed = await asyncio.to_thread(connect_again, server.port, context, session)
            assert is_resumed
            replace(files, renewed, "server.crt", "server.key")
            assert take(reload)
            _, is_resumed = await asyncio.to_thread(connect_again, server.port, context, session)
            assert not is_resumed

    asyncio.run(story())


@pytest.mark.parametrize("damage", ["half", "nonsense", "missing", "mode", "expired"])
def test_files_that_cannot_be_used_leave_the_old_ones(
    files: Path, renewed: Path, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "penstock.security")

    def spoil() -> None:
        if damage == "half":
            replace(files, renewed, "server.crt")
        elif damage == "nonsense":
            write_private(files / "server.key", b"nonsense")
        elif damage == "missing":
            (files / "server.key").rename(files / "away")
        elif damage == "mode":
            (files / "server.key").chmod(0o644)
        else:
            expired = make_tls_files(tmp_path / "expired", now=datetime.now(UTC) - timedelta(days=100))
            replace(files, expired, "server.crt", "server.key")

    async def story() -> None:
        reload, old = reload_of(files), client(files)
        async with echo_server(reload.context) as server:
            spoil()
            for _ in range(5):
                assert not reload.poll()
            assert await is_served(server.port, old)
            assert reload.failures == 1
            assert caplog.text.count("cannot use the new TLS files") == 1, "logged once"
            replace(files, renewed, "server.crt", "server.key")
            assert take(reload)
            assert await is_served(server.port, client(renewed))
            assert "reloaded TLS files" in caplog.text

    asyncio.run(story())


def test_half_of_an_update_is_not_reported(
    files: Path, renewed: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Certificate and key are two files; a poll in between must not complain."""
    reload = reload_of(files)
    replace(files, renewed, "server.crt")
    assert not reload.poll()
    replace(files, renewed, "server.key")
    assert take(reload)
    assert "cannot use" not in caplog.text


def test_a_link_that_is_switched(files: Path, renewed: Path, tmp_path: Path) -> None:
    """As Kubernetes updates a mounted secret."""
    current = tmp_path / "current"
    current.symlink_to(files)
    reload = reload_of(current)
    (tmp_path / "next").symlink_to(renewed)
    os.replace(tmp_path / "next", current)
    assert take(reload)


def test_the_same_files_are_not_loaded_again(files: Path) -> None:
    reload = reload_of(files)
    before = reload.context.current
    for _ in range(3):
        assert not reload.poll()
    assert reload.context.current is before


def test_a_start_without_usable_files_fails(files: Path) -> None:
    write_private(files / "server.key", b"nonsense")
    with pytest.raises(InvalidConfig):
        reload_of(files)


def test_the_end_of_a_certificate_is_announced_in_time(files: Path, caplog: pytest.LogCaptureFixture) -> None:
    clock = SetClock()
    reload = reload_of(files, clock)
    assert reload.not_after is not None
    counts = []
    for days in (-29.5, -29, -8, -6.5, -6, -1.5, -0.5, -0.1, 1, 2):
        clock.now = reload.not_after + timedelta(days=days)
        reload.poll()
        counts.append(caplog.text.count("the TLS certificate expires on"))
    assert counts == [1, 1, 1, 2, 2, 2, 3, 3, 3, 3]


def test_the_files_are_watched(files: Path, renewed: Path) -> None:
    async def story() -> None:
        reload = reload_of(files)
        workers = ThreadWorkers(asyncio.get_running_loop(), 1)
        watching = asyncio.ensure_future(reload.watch(workers, 0.01))
        replace(files, renewed, "server.crt", "server.key")
        while not reload.reloads:
            await asyncio.sleep(0.01)
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        workers.close()

    asyncio.run(asyncio.wait_for(story(), 120))
