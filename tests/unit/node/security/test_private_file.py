"""Files that only their owner may read: modes, owners, sizes, and what the error tells to do."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from penstock.core.errors import InvalidConfig
from penstock.node.security import private_file
from penstock.node.security.private_file import read_private, read_public, write_private


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "secret"
    write_private(path, b"content")
    return path


def test_written_files_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        write_private(tmp_path / "secret", b"content")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "secret").stat().st_mode) == 0o600
    assert read_private(tmp_path / "secret", "key") == b"content"
    assert [one.name for one in tmp_path.iterdir()] == ["secret"]


def test_a_file_that_others_could_read_is_replaced_by_a_private_one(path: Path) -> None:
    path.chmod(0o644)
    write_private(path, b"new")
    assert read_private(path, "key") == b"new"


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620, 0o601])
def test_files_that_others_can_access_are_refused(path: Path, mode: int) -> None:
    path.chmod(mode)
    with pytest.raises(InvalidConfig, match=rf"key: other users can access .*mode {mode:04o}.*chmod 600"):
        read_private(path, "key")


@pytest.mark.parametrize("mode", [0o600, 0o400, 0o700])
def test_files_of_the_owner_alone_are_read(path: Path, mode: int) -> None:
    path.chmod(mode)
    assert read_private(path, "key") == b"content"


def test_a_file_of_another_user_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    owner = path.stat().st_uid
    monkeypatch.setattr(private_file.os, "geteuid", lambda: owner + 1)
    monkeypatch.setattr(private_file, "_ROOT", owner + 2)
    with pytest.raises(InvalidConfig, match=rf"belongs to user {owner}, not to user {owner + 1}"):
        read_private(path, "key")


def test_links_are_followed_to_a_private_file(path: Path) -> None:
    """As in a secret that Kubernetes mounts."""
    link = path.with_name("link")
    link.symlink_to(path)
    assert read_private(link, "key") == b"content"


def test_other_things_than_files_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("pipe", "."):
        with pytest.raises(InvalidConfig, match="not a regular file"):
            read_private(tmp_path / name, "key")


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfig, match=r"key: cannot read .*missing: No such file"):
        read_private(tmp_path / "missing", "key")


def test_large_files_are_refused(path: Path) -> None:
    assert read_private(path, "key", 7) == b"content"
    with pytest.raises(InvalidConfig, match="over the limit of 6 bytes"):
        read_private(path, "key", 6)


def test_public_files_may_be_read_by_all_but_not_written(path: Path) -> None:
    path.chmod(0o644)
    assert read_public(path, "certificate", 100) == b"content"
    path.chmod(0o666)
    with pytest.raises(InvalidConfig, match=r"everybody can change .*chmod o-w"):
        read_public(path, "certificate", 100)
