"""What `penstock doctor` says about a machine."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.apps.cli import machine_checks
from penstock.apps.cli.machine_checks import (
    FAILED,
    OK,
    WARNING,
    check_clock,
    check_data_directory,
    check_limits,
    check_ports,
    check_software,
    file_system_of,
    judge_fsync,
)
from penstock.core.model import Storage
from penstock.node.settings import Settings

MOUNTS = "/dev/sda1 / ext4 rw 0 0\ntmpfs /tmp tmpfs rw 0 0\nserver:/x /mnt/my\\040disk nfs4 rw 0 0\nbroken\n"


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/var/data", "ext4"), ("/tmp/x", "tmpfs"), ("/tmpx", "ext4"), ("/mnt/my disk/data", "nfs4")],
)
def test_the_file_system_of_a_path(path: str, kind: str) -> None:
    assert file_system_of(Path(path), MOUNTS) == kind


@pytest.mark.parametrize(
    ("kind", "status"), [("ext4", OK), ("nfs4", WARNING), ("tmpfs", WARNING), ("overlay", WARNING)]
)
def test_file_systems_that_lose_data_are_told(
    kind: str, status: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mounts = tmp_path / "mounts"
    mounts.write_text(f"x / {kind} rw 0 0\n")
    monkeypatch.setattr(machine_checks, "_MOUNTS", mounts)
    found = {one.check: one for one in check_data_directory(Settings(data_dir=str(tmp_path / "data")))}
    assert found["file system"].status == status and bool(found["file system"].remedy) == (status != OK)
    assert found["data directory"].found.endswith("which will be created")
    assert [path.name for path in tmp_path.iterdir()] == ["mounts"]


def test_flushes_as_fast_as_a_disk() -> None:
    assert judge_fsync(1.0, 3.0).status == OK
    slow, fast = judge_fsync(25.0, 90.0), judge_fsync(0.001, 0.01)
    assert slow.status == WARNING and "durability" in slow.remedy
    assert fast.status == WARNING and "power failure" in fast.remedy


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("")
    (result,) = check_data_directory(Settings(data_dir=str(file / "below")))
    assert result.status == FAILED and "--data-dir" in result.remedy
    (result,) = check_data_directory(Settings(storage=Storage.MEMORY))
    assert result.status == WARNING and "storage=disk" in result.remedy


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_checks, "DISK_FREE_BYTES_MIN", 1 << 60)
    found = {one.check: one for one in check_data_directory(Settings(data_dir=str(tmp_path)))}
    assert found["disk space"].status == FAILED and "retention" in found["disk space"].remedy


def test_limits_name_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("resource.getrlimit", lambda _: (1_024, 1_024))
    limited, memory = check_limits(Settings())
    assert limited.status == WARNING and "connections_max is reduced" in limited.found
    monkeypatch.setattr("resource.getrlimit", lambda _: (10, 10))
    assert check_limits(Settings())[0].status == FAILED
    monkeypatch.setattr(machine_checks, "MEMORY_FREE_BYTES_MIN", 1 << 60)
    assert memory.check == "memory" and check_limits(Settings())[1].status == WARNING


def test_a_port_that_is_taken() -> None:
    off = dict.fromkeys(("text_port", "json_port", "queue_port", "http_port"))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        settings = replace(Settings(), port=port, **off)
        (result,) = check_ports(settings)
        assert result.status == FAILED and str(port) in result.found and "port" in result.remedy
    (result,) = check_ports(replace(settings, port=0))
    assert result.status == OK


def test_clock_and_software_say_something() -> None:
    assert check_clock().status in (OK, WARNING)
    assert [one.check for one in check_software()] == ["software", "extras"]
