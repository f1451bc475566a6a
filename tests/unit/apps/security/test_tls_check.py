"""Checking TLS files: which pass, and what is said about those that do not."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from penstock.apps.security.tls_check import check_tls
from penstock.core.errors import InvalidConfig
from security_samples import client_paths, make_tls_files, server_paths

NOW = datetime.now(UTC)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_tls_files(tmp_path_factory.mktemp("tls") / "files", "broker1")


@pytest.mark.parametrize("host", [None, "broker1", "localhost", "127.0.0.1", "::1"])
def test_files_that_can_be_used(files: Path, host: str | None) -> None:
    assert check_tls(server_paths(files), host, NOW).chain[0].subject == "CN=broker1"
    assert check_tls(server_paths(files)._replace(authorities=None), host, NOW).authorities == ()


def refusal(*arguments: object) -> str:
    with pytest.raises(InvalidConfig) as raised:
        check_tls(*arguments)  # type: ignore[arg-type]
    return str(raised.value)


def test_another_host(files: Path) -> None:
    assert "Hostname mismatch" in refusal(server_paths(files), "broker2", NOW)
    assert "is not for 'broker2' but for broker1" in refusal(
        server_paths(files)._replace(authorities=None), "broker2", NOW
    )


def test_another_authority(files: Path, tmp_path: Path) -> None:
    strangers = make_tls_files(tmp_path / "strangers")
    paths = server_paths(files)._replace(authorities=strangers / "ca.crt")
    assert "rejects the certificate" in refusal(paths, None, NOW)


def test_a_certificate_of_a_client(files: Path) -> None:
    assert "purpose" in refusal(client_paths(files), None, NOW).lower()


def test_an_expired_certificate(files: Path) -> None:
    assert "expired on" in refusal(server_paths(files), None, NOW + timedelta(days=31))
