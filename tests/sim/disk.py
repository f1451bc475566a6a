"""A simulated disk: page cache, durable image, faults, crashes. Never takes time; the workers do.

`SimDisk` is the device and outlives its machine; `SimFiles` is one mount of it, the core's `Files` port, and
dies with the process that holds it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from penstock.core.errors import DiskFailed, DiskFull, TornSegment
from sim.hosts import PowerLost
from sim.platter import Change, Content, Directory, Node, Tree, parts_of


@dataclass(slots=True)
class DiskCounters:
    """What was asked of a disk since it was made."""

    operations: int = 0
    """Everything that changes or syncs something; `interrupt_at` counts these."""
    file_syncs: int = 0
    dir_syncs: int = 0
    appends: int = 0
    appended_bytes: int = 0
    synced_bytes: int = 0


class SimDisk:
    """The device. All its chance comes from the stream it is given."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.counters = DiskCounters()
        self.read_only = False
        self.tree = Tree()
        self._mounts: list[SimFiles] = []
        self._capacity_bytes: int | None = None
        self._sync_fails_at: int | None = None
        self._interrupt_at: int | None = None
        self._on_interrupt: Callable[[], None] | None = None

    def mount(self) -> SimFiles:
        """The files of this disk, for one life of one process."""
        files = SimFiles(self)
        self._mounts.append(files)
        return files

    # ---- faults

    def kill(self) -> None:
        """The process died: its mounts and open files are gone, all that it wrote is there."""
        for files in self._mounts:
            files.alive = False
        self._mounts.clear()
        self._interrupt_at = None

    def crash(self) -> None:
        """The machine lost power: what was not synced, content or name, is kept, torn or gone by chance."""
        self.kill()
        self.tree.crash(self.chance)

    def fill_after(self, count: int) -> None:
        """No space after `count` more bytes: an append that does not fit leaves nothing. Cutting and removing
        files makes room again."""
        self._capacity_bytes = self.used_bytes() + count

    def enlarge(self) -> None:
        """Space without end again."""
        self._capacity_bytes = None

    def fail_sync_at(self, call: int) -> None:
        """The `call`-th sync of a file or directory from now on fails, once; 1 is the next."""
        assert call > 0
        self._sync_fails_at = self.counters.file_syncs + self.counters.dir_syncs + call

    def interrupt_at(self, operation: int, then: Callable[[], None] | None = None) -> None:
        """End the process in the middle of the `operation`-th operation from now on; 1 is the next. That one
        happens, in part or not at all; `then` is called (to crash the host, say) and PowerLost is raised."""
        assert operation > 0
        self._interrupt_at = self.counters.operations + operation
        self._on_interrupt = then

    def relent(self) -> None:
        """Take back all faults that have not come about yet."""
        self._interrupt_at = self._sync_fails_at = None
        self.enlarge()

    def flip(self, path: str, byte: int, bit: int) -> None:
        """Turn one bit of a file over, on the platter and in the cache."""
        content = self.tree.find(path)
        assert isinstance(content, Content) and byte < len(content.cache), f"{path} has no byte {byte}"
        content.flip(byte, bit)

    def used_bytes(self) -> int:
        return sum(len(content.cache) for content in self.tree.contents())

    # ---- asked by mounts

    def space(self) -> tuple[int, int]:
        """Bytes in all and bytes free; -1 where there is space without end."""
        if self._capacity_bytes is None:
            return -1, -1
        return self._capacity_bytes, max(0, self._capacity_bytes - self.used_bytes())

    def operate(self, act: Callable[[], None], act_in_part: Callable[[], None] | None = None) -> None:
        """Do one operation, unless this is the one in which the process ends."""
        self.counters.operations += 1
        if self.counters.operations != self._interrupt_at:
            act()
            return
        if act_in_part is not None:
            act_in_part()
        elif self.chance.random() < 0.5:
            act()
        self.kill()
        if self._on_interrupt is not None:
            self._on_interrupt()
        raise PowerLost(f"at operation {self.counters.operations} of the disk")

    def check_writable(self) -> None:
        if self.read_only:
            raise DiskFailed("the disk is read-only")

    def room_for(self, count: int) -> int:
        """How many of `count` bytes still fit."""
        if self._capacity_bytes is None:
            return count
        return max(0, min(count, self._capacity_bytes - self.used_bytes()))

    def check_sync(self) -> None:
        if self.counters.file_syncs + self.counters.dir_syncs == self._sync_fails_at:
            raise DiskFailed("sync failed: input/output error")


class SimFile:
    """One open file. After its process died every call raises PowerLost."""

    def __init__(self, files: SimFiles, path: str, content: Content) -> None:
        self._files = files
        self._disk = files.disk
        self._path = path
        self._content = content
        self._pins = 0
        self._closed = False

    @property
    def path(self) -> str:
        return self._path

    def size(self) -> int:
        self._check_open()
        return len(self._content.cache)

    def append(self, buffers: Sequence[bytes | bytearray | memoryview]) -> None:
        self._check_open()
        self._disk.check_writable()
        data = b"".join(buffers)
        part = data[: self._disk.chance.randint(0, len(data))]
        self._disk.operate(lambda: self._append(data), lambda: self._content.append(part))

    def _append(self, data: bytes) -> None:
        if self._disk.room_for(len(data)) < len(data):
            raise DiskFull(f"{self._path}: no space left for {len(data)} bytes")
        self._content.append(data)
        self._disk.counters.appends += 1
        self._disk.counters.appended_bytes += len(data)

    def read(self, position: int, length: int) -> bytes:
        self._check_open(pinned=self._pins > 0)
        assert position >= 0 and length >= 0
        return bytes(self._content.cache[position : position + length])

    def truncate(self, size: int) -> None:
        self._check_open()
        self._disk.check_writable()
        assert 0 <= size <= len(self._content.cache), f"{self._path}: cannot cut to {size}"
        self._disk.operate(lambda: self._content.truncate(size))

    def sync(self) -> None:
        """A closed file needs no flush: whoever closed it either flushed it or does not want it any more."""
        self._files.check_alive()
        if not self._closed or self._pins:
            self._disk.operate(self._sync)

    def _sync(self) -> None:
        self._disk.counters.file_syncs += 1
        try:
            self._disk.check_sync()
            if self._content.dirty():
                self._disk.check_writable()
        except DiskFailed:
            self._content.drop_unsynced()
            raise
        self._disk.counters.synced_bytes += self._content.sync()

    def handle(self) -> int | None:
        return None

    def pin(self) -> None:
        self._check_open()
        self._pins += 1

    def unpin(self) -> None:
        assert self._pins > 0, f"{self._path}: more unpins than pins"
        self._pins -= 1

    def close(self) -> None:
        """Also after the process died: what is taken apart then may close its files, and nothing comes of it."""
        self._closed = True

    def _check_open(self, *, pinned: bool = False) -> None:
        self._files.check_alive()
        assert pinned or not self._closed, f"{self._path} is closed"


class SimFiles:
    """The core's `Files` on a SimDisk. After its process died every call raises PowerLost."""

    def __init__(self, disk: SimDisk) -> None:
        self.disk = disk
        self.alive = True

    def open(self, path: str, *, create: bool = False) -> SimFile:
        node = self._find(path)
        if node is None and create:
            node = self._create(path)
        if not isinstance(node, Content):
            raise TornSegment(f"{path}: no such file")
        return SimFile(self, path, node)

    def names(self, directory: str) -> list[str]:
        node = self._find(directory)
        return sorted(node.entries) if isinstance(node, Directory) else []

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def size(self, path: str) -> int:
        node = self._find(path)
        if not isinstance(node, Content):
            raise TornSegment(f"{path}: no such file")
        return len(node.cache)

    def make_dir(self, path: str) -> None:
        directory = self.disk.tree.root
        self.check_alive()
        for part in parts_of(path):
            node = directory.entries.get(part)
            if node is None:
                node = Directory()
                self._change(Change(directory, part, node))
            if not isinstance(node, Directory):
                raise DiskFailed(f"{path}: {part} is a file")
            directory = node

    def rename(self, source: str, target: str) -> None:
        node = self._find(source)
        if node is None:
            raise TornSegment(f"{source}: no such file or directory")
        there = self._find(target)
        if isinstance(there, Directory) and (there.entries or isinstance(node, Content)):
            raise DiskFailed(f"{target}: a directory is in the way")
        if source != target:
            self._change(Change(*self._place(source), None), Change(*self._place(target), node))

    def remove(self, path: str) -> None:
        node = self._find(path)
        if isinstance(node, Directory):
            raise DiskFailed(f"{path}: is a directory")
        if node is not None:
            self._change(Change(*self._place(path), None))

    def remove_dir(self, path: str) -> None:
        node = self._find(path)
        if isinstance(node, Directory):
            for name in self.names(path):
                below = f"{path}/{name}"
                (self.remove_dir if isinstance(self._find(below), Directory) else self.remove)(below)
            self._change(Change(*self._place(path), None))

    def sync_dir(self, path: str) -> None:
        directory = self._find(path)
        if not isinstance(directory, Directory):
            raise DiskFailed(f"{path}: no such directory")
        self.disk.operate(lambda: self._sync_dir(directory))

    def read_whole(self, path: str) -> bytes | None:
        node = self._find(path)
        return bytes(node.cache) if isinstance(node, Content) else None

    def write_whole(self, path: str, content: bytes, *, sync: bool = True) -> None:
        temporary = f"{path}.tmp"
        self.remove(temporary)
        file = self.open(temporary, create=True)
        file.append([content])
        if sync:
            file.sync()
        file.close()
        self.rename(temporary, path)
        if sync:
            self.sync_dir(path.rpartition("/")[0])

    def space(self) -> tuple[int, int]:
        self.check_alive()
        return self.disk.space()

    def check_alive(self) -> None:
        if not self.alive:
            raise PowerLost("the process that held these files is gone")

    def _find(self, path: str) -> Node | None:
        self.check_alive()
        return self.disk.tree.find(path)

    def _place(self, path: str) -> tuple[Directory, str]:
        *above, name = parts_of(path)
        directory = self.disk.tree.find("/".join(above))
        if not isinstance(directory, Directory):
            raise TornSegment(f"{path}: no such directory")
        return directory, name

    def _create(self, path: str) -> Content:
        content = Content()
        self._change(Change(*self._place(path), content))
        return content

    def _change(self, *changes: Change) -> None:
        self.check_alive()
        self.disk.check_writable()
        self.disk.operate(lambda: self.disk.tree.change(*changes))

    def _sync_dir(self, directory: Directory) -> None:
        self.disk.counters.dir_syncs += 1
        self.disk.check_sync()
        self.disk.tree.sync(directory)
