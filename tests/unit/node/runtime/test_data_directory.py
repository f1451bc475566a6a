"""The data directory is private, and its name survives a power loss."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from penstock.core.errors import BrokerError
from penstock.node.runtime.data_directory import make_private, make_root
from penstock.node.runtime.disk import DirectoryLock, DiskFiles


@pytest.fixture(autouse=True)
def _open_umask() -> object:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The directories that were flushed, in their order."""
    found: list[Path] = []
    fsync = os.fsync

    def count(fd: int) -> None:
        found.append(Path(os.readlink(f"/proc/self/fd/{fd}")))
        fsync(fd)

    monkeypatch.setattr(os, "fsync", count)
    return found


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_every_parent_of_a_new_directory_is_flushed_from_the_outside_in(
    tmp_path: Path, synced: list[Path]
) -> None:
    make_root(tmp_path / "a" / "b" / "data")
    assert synced == [tmp_path, tmp_path / "a", tmp_path / "a" / "b"]
    assert mode_of(tmp_path / "a" / "b" / "data") == 0o700


def test_a_directory_that_is_there_keeps_its_mode_and_needs_no_flush(
    tmp_path: Path, synced: list[Path]
) -> None:
    tmp_path.chmod(0o750)
    make_root(tmp_path)
    assert synced == [] and mode_of(tmp_path) == 0o750


def test_a_relative_path_is_flushed_as_well(
    tmp_path: Path, synced: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    make_root(Path("data"))
    assert synced == [tmp_path]


def test_whatever_the_disk_makes_is_private(tmp_path: Path) -> None:
    root = tmp_path / "data"
    make_root(root)
    files = DiskFiles(root, 16)
    files.make_dir("topics/a/0")
    files.make_dir("topics/a/0")
    files.open("topics/a/0/log", create=True).close()
    files.write_whole("node.json", b"{}")
    files.write_whole("topics/a/0/epochs", b"{}", sync=False)
    DirectoryLock(root).release()
    modes = {path.relative_to(root).as_posix(): mode_of(path) for path in root.rglob("*")}
    assert modes == {
        "topics": 0o700,
        "topics/a": 0o700,
        "topics/a/0": 0o700,
        "topics/a/0/log": 0o600,
        "topics/a/0/epochs": 0o600,
        "node.json": 0o600,
        ".lock": 0o600,
    }


def test_a_name_that_is_taken_by_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "topics").write_text("")
    with pytest.raises(BrokerError, match="cannot create"):
        DiskFiles(tmp_path, 16).make_dir("topics/a")


def test_what_an_earlier_version_left_open_is_closed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "topics").mkdir(0o755)
    (tmp_path / "node.json").write_text("{}")
    make_private(tmp_path, ("topics", "node.json", "missing"))
    assert (mode_of(tmp_path / "topics"), mode_of(tmp_path / "node.json")) == (0o700, 0o600)
    assert not caplog.records


def test_what_cannot_be_closed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "topics").mkdir(0o755)

    def refuse(path: Path, mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    make_private(tmp_path, ("topics",))
    assert f"chmod -R go= {tmp_path}" in caplog.text
