"""The Files contract over the two trees that the node ships. The simulated one runs it beside its own tests."""

from __future__ import annotations

from pathlib import Path

from contract.files_contract import FilesContract
from penstock.core.ports import Files
from penstock.node.runtime.disk import DiskFiles
from penstock.node.runtime.memory import MemoryFiles

FEW_FILES = 4


class TestDiskFiles(FilesContract):
    """With room for every descriptor."""

    def make_files(self, root: Path) -> Files:
        return DiskFiles(root, 1_000)


class TestDiskFilesWithFewDescriptors(FilesContract):
    """Descriptors come and go under the files that use them."""

    def make_files(self, root: Path) -> Files:
        return DiskFiles(root, FEW_FILES)

    def test_more_files_than_descriptors_are_read_and_written(self, tmp_path: Path) -> None:
        files = DiskFiles(tmp_path, FEW_FILES)
        opened = [files.open(f"f{number}", create=True) for number in range(5 * FEW_FILES)]
        for number, file in enumerate(opened):
            file.append([b"%d" % number])
            file.sync()
        for number, file in enumerate(opened):
            file.append([b"!"])
            assert file.read(0, 10) == b"%d!" % number
        assert files.open_count() <= FEW_FILES


class TestMemoryFiles(FilesContract):
    """Nothing below but bytes."""

    def make_files(self, root: Path) -> Files:
        return MemoryFiles()
