"""The directory of `security init`: private, complete, usable by OpenSSL's own tools, never overwritten unasked."""

from __future__ import annotations

import asyncio
import stat
import subprocess
from datetime import UTC, datetime
from pathlib import Path

import pytest

from penstock.apps.security.security_directory import SecurityPlan, make_security_directory
from penstock.core.authentication.principal_rules import PrincipalRules
from penstock.core.authentication.scram import CredentialLookup, ScramCredential, ScramMechanism
from penstock.core.authentication.secret import Secret
from penstock.core.errors import InvalidConfig
from penstock.node.security.peer_certificate import CertificateName, certificate_user
from penstock.node.security.tls_context import ClientAuth, TlsPolicy, server_context
from penstock.node.security.user_file import load_users
from penstock.wire.sasl.scram import ScramExchange
from security_samples import NONCE, log_in, make_tls_files, server_paths
from tls_peers import echo_server

NOW = datetime.now(UTC)
OPENSSL_S_MAX = 120


def plan(directory: Path, **changes: object) -> SecurityPlan:
    return SecurityPlan(directory, ("broker1",), ("billing",), 30)._replace(**changes)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("security") / "new" / "files"
    return make_security_directory(plan(directory), NOW).directory


def test_everything_is_private(made: Path) -> None:
    assert stat.S_IMODE(made.stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in made.iterdir()}
    assert set(modes.values()) == {0o600}
    assert sorted(modes) == sorted(
        [f"{name}.{kind}" for name in ("ca", "server", "admin", "billing") for kind in ("crt", "key")]
        + ["admin.pem", "billing.pem", "admin.password", "admin.properties", "admin.curlrc", "users.json"]
    )


def test_openssl_verifies_the_chain(made: Path) -> None:
    verify = ["openssl", "verify", "-x509_strict", "-CAfile", made / "ca.crt"]
    server = ["-purpose", "sslserver", "-verify_hostname", "broker1", made / "server.crt"]
    subprocess.run([*verify, *server], check=True, capture_output=True)
    for name in ("admin", "billing"):
        subprocess.run(
            [*verify, "-purpose", "sslclient", made / f"{name}.crt"], check=True, capture_output=True
        )
    refused = subprocess.run([*verify, "-purpose", "sslserver", made / "admin.crt"], capture_output=True)
    assert refused.returncode != 0, "a client's certificate is not one of a server"


async def openssl_client(port: int, made: Path, *more: object) -> tuple[int, bytes]:
    """`openssl s_client` that sends a line; its exit code and output."""
    client = await asyncio.create_subprocess_exec(
        *("openssl", "s_client", "-connect", f"127.0.0.1:{port}", "-servername", "broker1", "-quiet"),
        *("-verify_hostname", "broker1", "-CAfile", made / "ca.crt", "-verify_return_error"),
        *map(str, more),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert client.stdin is not None
    assert client.stdout is not None
    client.stdin.write(b"hello\n")
    seen = b""
    async with asyncio.timeout(OPENSSL_S_MAX):
        while b"hello\n" not in seen and (content := await client.stdout.read(4096)):
            seen += content
        client.stdin.close()
        if client.returncode is None and b"hello\n" in seen:
            client.terminate()
        return await client.wait(), seen


def test_openssl_connects_with_a_client_certificate(made: Path) -> None:
    async def story() -> None:
        context = server_context(server_paths(made), TlsPolicy(ClientAuth.REQUIRED), NOW)
        async with echo_server(context) as server:
            mine = "-cert", made / "billing.crt", "-key", made / "billing.key"
            for version in ("-tls1_2", "-tls1_3"):
                _, seen = await openssl_client(server.port, made, version, *mine)
                assert seen.endswith(b"hello\n")
            users = [
                certificate_user(der, CertificateName.SUBJECT, PrincipalRules("RULE:^CN=(.*)$/$1/"))
                for der in server.certificates
                if der is not None
            ]
            assert users == ["billing", "billing"]
            _, seen = await openssl_client(server.port, made)
            assert b"hello" not in seen, "without a certificate nobody is served"
            old = "-tls1_1", "-cipher", "ALL:@SECLEVEL=0"
            code, seen = await openssl_client(server.port, made, *old, *mine)
            assert code != 0
            assert b"hello" not in seen

    asyncio.run(story())


def test_the_admin_can_log_in(made: Path) -> None:
    (admin,) = load_users(made / "users.json")
    assert (admin.name, admin.is_super_user) == ("admin", True)
    password = (made / "admin.password").read_text().strip()
    assert len(password) >= 32
    assert password not in (made / "users.json").read_text()

    class Users:
        def credential(self, user: str, mechanism: ScramMechanism) -> ScramCredential | None:
            return next((one for one in admin.credentials if one.mechanism is mechanism), None)

    lookup = CredentialLookup(Users(), b"d" * 32)
    for mechanism in ScramMechanism:
        assert (
            log_in(ScramExchange(mechanism, lookup, NONCE), mechanism.value, "admin", password).user
            == "admin"
        )
    assert lookup.is_password("admin", Secret(password))
    assert password in (made / "admin.properties").read_text()


def test_nothing_is_overwritten_unasked(made: Path, tmp_path: Path) -> None:
    directory = make_tls_files(tmp_path / "files")
    before = {path: path.read_bytes() for path in directory.iterdir()}
    with pytest.raises(InvalidConfig, match=r"already: use --force to replace them all"):
        make_security_directory(plan(directory), NOW)
    assert {path: path.read_bytes() for path in directory.iterdir()} == before
    make_security_directory(plan(directory, force=True, clients=("client",)), NOW)
    after = {path: path.read_bytes() for path in directory.iterdir()}
    assert after.keys() == before.keys()
    assert all(after[path] != content for path, content in before.items() if path.suffix != ".curlrc")


def test_one_file_in_the_way_is_enough(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    (tmp_path / "ca.key").write_text("mine")
    with pytest.raises(InvalidConfig, match=r"has ca.key already"):
        make_security_directory(plan(tmp_path), NOW)
    assert [path.name for path in tmp_path.iterdir()] == ["ca.key"]


def test_a_directory_that_others_can_read_is_refused(tmp_path: Path) -> None:
    directory = tmp_path / "open"
    directory.mkdir()
    directory.chmod(0o755)
    with pytest.raises(InvalidConfig, match=r"other users can access .*mode 0755.*chmod 700"):
        make_security_directory(plan(directory), NOW)
    assert list(directory.iterdir()) == []


@pytest.mark.parametrize("name", ["", "../x", "a/b", "a b", "ca", "server", "x" * 65, "ä"])
def test_names_of_clients_are_names_of_files(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidConfig, match="client name"):
        make_security_directory(plan(tmp_path / "files", clients=(name,)), NOW)
    assert not (tmp_path / "files").exists()
