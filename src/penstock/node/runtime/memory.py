"""Files in memory, for tests, notebooks and data that may be lost with the process."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.core.errors import DiskFailed, TornSegment


class MemoryFile:
    """A growing byte array. References keep it alive after its name is removed."""

    __slots__ = ("_content", "path")

    def __init__(self, path: str, content: bytearray) -> None:
        self.path = path
        self._content = content

    def size(self) -> int:
        return len(self._content)

    def append(self, buffers: Sequence[bytes | bytearray | memoryview]) -> None:
        for buffer in buffers:
            self._content += buffer

    def read(self, position: int, length: int) -> bytes:
        with memoryview(self._content) as view:
            return bytes(view[position : position + length])

    def truncate(self, size: int) -> None:
        if size <= len(self._content):
            del self._content[size:]
        else:
            self._content += bytes(size - len(self._content))

    def sync(self) -> None:
        """Nothing to sync."""

    def handle(self) -> int | None:
        return None

    def pin(self) -> None:
        """Nothing to pin: the reference keeps the bytes."""

    def unpin(self) -> None:
        """See pin."""

    def close(self) -> None:
        """Nothing to release."""


class MemoryFiles:
    """A tree of names over byte arrays."""

    def __init__(self) -> None:
        self._contents: dict[str, bytearray] = {}
        self._directories: dict[str, dict[str, None]] = {"": {}}

    def open(self, path: str, *, create: bool = False) -> MemoryFile:
        content = self._contents.get(path)
        if content is None:
            if not create:
                raise TornSegment(f"{path} does not exist")
            content = self._contents[path] = bytearray()
            self._enter(path)
        return MemoryFile(path, content)

    def _enter(self, path: str) -> None:
        directory, _, name = path.rpartition("/")
        self.make_dir(directory)
        self._directories[directory][name] = None

    def names(self, directory: str) -> list[str]:
        return sorted(self._directories.get(directory, ()))

    def exists(self, path: str) -> bool:
        return path in self._contents or path in self._directories

    def size(self, path: str) -> int:
        return self.open(path).size()

    def make_dir(self, path: str) -> None:
        if path not in self._directories:
            self._directories[path] = {}
            self._enter(path)

    def rename(self, source: str, target: str) -> None:
        if source in self._directories:
            self._rename_dir(source, target)
        elif source not in self._contents:
            raise DiskFailed(f"cannot rename {source}: it does not exist")
        elif source != target:
            self._contents[target] = self._contents[source]
            self._enter(target)
            self.remove(source)

    def _rename_dir(self, source: str, target: str) -> None:
        if self.names(target):
            raise DiskFailed(f"cannot rename {source}: {target} is not empty")
        self.make_dir(target)
        for name in self.names(source):
            self.rename(f"{source}/{name}", f"{target}/{name}")
        self.remove_dir(source)

    def remove(self, path: str) -> None:
        if self._contents.pop(path, None) is not None:
            directory, _, name = path.rpartition("/")
            del self._directories[directory][name]

    def remove_dir(self, path: str) -> None:
        if path not in self._directories:
            return
        for name in self.names(path):
            self.remove(f"{path}/{name}")
            self.remove_dir(f"{path}/{name}")
        del self._directories[path]
        directory, _, name = path.rpartition("/")
        self._directories[directory].pop(name, None)

    def space(self) -> tuple[int, int]:
        return -1, -1

    def sync_dir(self, path: str) -> None:
        """Nothing to sync."""

    def read_whole(self, path: str) -> bytes | None:
        content = self._contents.get(path)
        return None if content is None else bytes(content)

    def write_whole(self, path: str, content: bytes, *, sync: bool = True) -> None:
        self._contents[path] = bytearray(content)
        self._enter(path)
