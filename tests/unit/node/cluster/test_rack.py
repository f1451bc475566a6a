"""The rack of a machine: the same for all its processes, and its id stays at home."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from penstock.node.cluster.rack import machine_rack

MACHINE_ID = "0123456789abcdef0123456789abcdef"


def test_a_machine_is_known_by_a_hash_of_its_id(tmp_path: Path) -> None:
    (one := tmp_path / "one").write_text(MACHINE_ID + "\n")
    (two := tmp_path / "two").write_text(MACHINE_ID[::-1] + "\n")
    assert machine_rack(one) == machine_rack(one) != machine_rack(two)
    assert machine_rack(one).startswith("machine-") and MACHINE_ID[:8] not in machine_rack(one)


@pytest.mark.parametrize("content", ["", "uninitialized\n", "0123", "\xff" * 32])
def test_without_an_id_the_host_name_counts(tmp_path: Path, content: str) -> None:
    (file := tmp_path / "machine-id").write_text(content, encoding="latin-1")
    assert machine_rack(file) == machine_rack(tmp_path / "none") == socket.gethostname()
