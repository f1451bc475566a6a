"""TLS files: what is wrong with them is said, with the file and the remedy."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.core.errors import InvalidConfig
from penstock.node.security.private_file import write_private
from penstock.node.security.tls_material import TlsPaths, inspect_material
from security_samples import make_tls_files, server_paths

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tls_files(tmp_path_factory.mktemp("tls") / "files", "broker1", "10.0.0.5", now=NOW)


@pytest.fixture
def files(made: Path, tmp_path: Path) -> Path:
    """A copy that a test may damage."""
    for path in made.iterdir():
        write_private(tmp_path / path.name, path.read_bytes())
    return tmp_path


def refusal(paths: TlsPaths, now: datetime = NOW) -> str:
    with pytest.raises(InvalidConfig) as raised:
        inspect_material(paths, now)
    return str(raised.value)


def test_facts(files: Path) -> None:
    found = inspect_material(server_paths(files), NOW)
    (server,) = found.chain
    assert (server.subject, server.issuer) == ("CN=broker1", "CN=Penstock development CA")
    assert server.hosts == ("broker1", "localhost", "10.0.0.5", "127.0.0.1", "::1")
    assert (server.is_authority, server.days_left(NOW)) == (False, 29)
    assert [one.is_authority for one in found.authorities] == [True]


def test_a_key_of_another_certificate(files: Path) -> None:
    paths = server_paths(files)._replace(key=files / "client.key")
    assert "client.key does not belong to the first certificate in" in refusal(paths)


def test_certificate_and_key_must_come_together(files: Path) -> None:
    assert "needs a key" in refusal(TlsPaths(certificate=files / "server.crt"))
    assert "needs a certificate" in refusal(TlsPaths(key=files / "server.key"))


def test_expired_and_not_yet_valid(files: Path) -> None:
    assert "expired on" in refusal(server_paths(files), NOW + timedelta(days=31))
    assert "is not valid before" in refusal(server_paths(files), NOW - timedelta(days=1))
    late = TlsPaths(authorities=files / "ca.crt")
    assert "every certificate in" in refusal(late, NOW + timedelta(days=4000))


def test_swapped_files(files: Path) -> None:
    paths = TlsPaths(files / "server.key", files / "server.crt")
    assert "it holds a private key: were the two files swapped?" in refusal(paths)
    paths = TlsPaths(files / "server.crt", files / "server.crt")
    assert "it holds a certificate: were the two files swapped?" in refusal(paths)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "openssl x509 -inform der"),
        (b"\x30\x82\x01\x01", "openssl x509 -inform der"),
        (b"-----BEGIN CERTIFICATE REQUEST-----\n", "expected BEGIN CERTIFICATE"),
        (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "damaged certificate"),
    ],
)
def test_what_is_no_certificate(files: Path, content: bytes, words: str) -> None:
    write_private(files / "server.crt", content)
    assert words in refusal(server_paths(files))


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "openssl pkey -inform der"),
        (b"-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n", "it is damaged"),
    ],
)
def test_what_is_no_key(files: Path, content: bytes, words: str) -> None:
    write_private(files / "server.key", content)
    assert words in refusal(server_paths(files))


def test_a_key_that_others_can_read(files: Path) -> None:
    (files / "server.key").chmod(0o640)
    assert "TLS key: other users can access" in refusal(server_paths(files))


def test_authorities_that_others_can_change(files: Path) -> None:
    (files / "ca.crt").chmod(0o666)
    assert "TLS authorities: everybody can change" in refusal(server_paths(files))


def test_encrypted_keys(files: Path) -> None:
    key, password = files / "server.key", files / "key.password"
    write_private(password, b"open sesame\n")
    subprocess.run(
        [
            "openssl",
            "pkey",
            "-in",
            key,
            "-aes256",
            "-passout",
            f"file:{password}",
            "-out",
            files / "encrypted.key",
        ],
        check=True,
    )
    (files / "encrypted.key").chmod(0o600)
    encrypted = server_paths(files)._replace(key=files / "encrypted.key")
    assert inspect_material(encrypted._replace(key_password=password), NOW).chain
    assert "is encrypted: set the file with its password" in refusal(encrypted)
    assert "is not encrypted, but a password is set" in refusal(
        server_paths(files)._replace(key_password=password)
    )
    write_private(password, b"guess\n")
    message = refusal(encrypted._replace(key_password=password))
    assert "the password is wrong or the file is damaged" in message
    assert "guess" not in message


def test_a_chain_out_of_order(files: Path) -> None:
    write_private(
        files / "server.crt", (files / "server.crt").read_bytes() + (files / "client.crt").read_bytes()
    )
    assert "out of order: 'CN=broker1' was issued by" in refusal(server_paths(files))


def test_a_chain_in_order(files: Path) -> None:
    write_private(files / "server.crt", (files / "server.crt").read_bytes() + (files / "ca.crt").read_bytes())
    assert len(inspect_material(server_paths(files), NOW).chain) == 2


def test_a_short_rsa_key(files: Path) -> None:
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:1024", "-nodes", "-subj", "/CN=x", "-days", "9"),
            *("-keyout", files / "short.key", "-out", files / "short.crt"),
        ],
        check=True,
        capture_output=True,
    )
    (files / "short.key").chmod(0o600)
    assert "has 1024 bits; RSA keys need 2048" in refusal(
        TlsPaths(files / "short.crt", files / "short.key"), datetime.now(UTC) + timedelta(minutes=1)
    )
