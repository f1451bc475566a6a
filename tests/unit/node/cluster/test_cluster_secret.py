"""The file with the cluster's secret: private, whole, and created once."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from penstock.core.errors import InvalidConfig
from penstock.node.cluster.cluster_secret import SECRET_FILE, make_secret, read_secret
from penstock.node.runtime.clock import SystemRng


def test_the_secret_is_created_once_and_for_its_owner_only(tmp_path: Path) -> None:
    os.umask(before := os.umask(0))
    try:
        os.umask(0)
        secret = make_secret(tmp_path, SystemRng())
    finally:
        os.umask(before)
    path = tmp_path / SECRET_FILE
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert make_secret(tmp_path, SystemRng()) == secret == read_secret(path)
    assert os.listdir(tmp_path) == [SECRET_FILE]


def test_what_a_crash_left_behind_is_replaced(tmp_path: Path) -> None:
    (tmp_path / f"{SECRET_FILE}.new").write_text("half")
    assert len(make_secret(tmp_path, SystemRng())) == 32


@pytest.mark.parametrize("content", [b"", b"00" * 31, b"xy" * 32, b"00" * 33, b"\xff" * 64])
def test_a_file_without_a_secret_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / SECRET_FILE
    path.write_bytes(content)
    path.chmod(0o600)
    with pytest.raises(InvalidConfig, match="does not contain a cluster secret"):
        make_secret(tmp_path, SystemRng())


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_secret_that_others_can_read_is_refused(tmp_path: Path, mode: int) -> None:
    make_secret(tmp_path, SystemRng())
    (tmp_path / SECRET_FILE).chmod(mode)
    with pytest.raises(InvalidConfig, match="chmod 600"):
        read_secret(tmp_path / SECRET_FILE)
