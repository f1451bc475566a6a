"""Incarnations are given out once, across restarts and damage."""

from __future__ import annotations

import pytest

from penstock.core.errors import DiskFull
from penstock.node.peers.incarnation import BLOCK, INCARNATION_FILE, IncarnationFile
from penstock.node.runtime.memory import MemoryFiles


def test_no_incarnation_is_given_out_twice() -> None:
    files = MemoryFiles()
    assert IncarnationFile(files).reserve() == range(1, 1 + BLOCK)
    assert IncarnationFile(files).reserve() == range(1 + BLOCK, 1 + 2 * BLOCK)
    assert IncarnationFile(files).reserve(9_000) == range(9_000, 9_000 + BLOCK)
    assert IncarnationFile(files).reserve(5).start == 9_000 + BLOCK


def test_a_damaged_file_is_replaced_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    files = MemoryFiles()
    files.write_whole(INCARNATION_FILE, b"00000000\n{}\n")
    assert IncarnationFile(files).reserve().start == 1
    assert "other brokers remember" in caplog.text
    assert IncarnationFile(files).reserve().start == 1 + BLOCK


def test_a_full_disk_is_told() -> None:
    class FullFiles(MemoryFiles):
        def write_whole(self, path: str, content: bytes, *, sync: bool = True) -> None:
            raise DiskFull("no space left")

    with pytest.raises(DiskFull):
        IncarnationFile(FullFiles()).reserve()
