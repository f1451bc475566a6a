"""The ready file is whole or absent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.apps.ready import ReadyInfo, StartError, remove_ready_file, write_ready_file
from penstock.core.model import Durability, Storage
from penstock.node.connections.addresses import Address

INFO = ReadyInfo(
    host="127.0.0.1",
    port=40123,
    advertised=Address("127.0.0.1", 40123),
    data_dir="/data",
    storage=Storage.DISK,
    durability=Durability.FSYNC,
    pid=7,
)


def test_content_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    path.write_text("an older one")
    write_ready_file(path, INFO)
    assert json.loads(path.read_text()) == {"host": "127.0.0.1", "port": 40123, "pid": 7, "data_dir": "/data"}
    assert [entry.name for entry in tmp_path.iterdir()] == ["ready.json"]


def test_remove(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    write_ready_file(path, INFO)
    remove_ready_file(path)
    remove_ready_file(path)
    assert not path.exists()


def test_no_such_directory(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"Cannot write the ready file .*: No such file or directory"):
        write_ready_file(tmp_path / "absent" / "ready.json", INFO)


def test_a_directory_in_its_place(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="Cannot remove the old ready file"):
        remove_ready_file(tmp_path)
