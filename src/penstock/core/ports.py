"""Ports of the core: files, time and randomness as small protocols. Implemented by `node` and by the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class File(Protocol):
    """One open append-only file that can be truncated. Positions are bytes from its start."""

    @property
    def path(self) -> str: ...

    def size(self) -> int: ...

    def append(self, buffers: Sequence[bytes | bytearray | memoryview]) -> None:
        """Append all buffers in one write. After DiskFailed, ignore everything past the old end."""

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`; fewer only at the end of the file."""

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Block until the content is on stable storage (fdatasync). Raises DiskFailed. May run in a worker thread."""

    def handle(self) -> int | None:
        """A descriptor fit for sendfile, or None when there is none (memory, simulation)."""

    def pin(self) -> None:
        """Keep the content readable, even if the file is removed, until the matching number of `unpin` calls."""

    def unpin(self) -> None: ...

    def close(self) -> None: ...


class Files(Protocol):
    """A directory tree under one root.

    Paths are relative, with `/` between parts. Directories end up durable only by `sync_dir`.
    """

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and appending. Raises TornSegment if the file does not exist and `create` is false."""

    def names(self, directory: str) -> list[str]:
        """Sorted names inside a directory; empty if the directory does not exist."""

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int:
        """Bytes in the file without opening it."""

    def make_dir(self, path: str) -> None:
        """Create the directory and its parents, unless it exists. Does not sync."""

    def rename(self, source: str, target: str) -> None:
        """Atomically replace `target`. Does not sync the directory."""

    def remove(self, path: str) -> None:
        """Remove a file, if it exists."""

    def remove_dir(self, path: str) -> None:
        """Remove a directory tree, if it exists."""

    def space(self) -> tuple[int, int]:
        """Total and free bytes of the file system; -1 where this is not applicable."""

    def sync_dir(self, path: str) -> None:
        """Make the names inside the directory durable. Raises DiskFailed. May run in a worker thread."""

    def read_whole(self, path: str) -> bytes | None:
        """The file's content, or None if it does not exist."""

    def write_whole(self, path: str, content: bytes, *, sync: bool = True) -> None:
        """Replace the file atomically: temporary file, sync, rename, sync_dir. A crash leaves old or new content.

        Without `sync` nothing blocks on the disk; a power loss may then leave old, new or torn content.
        """


class Clock(Protocol):
    """Source of time."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since 1970."""


class Rng(Protocol):
    """Source of randomness."""

    def bytes(self, count: int) -> bytes: ...

    def below(self, bound: int) -> int:
        """A number from 0 to bound - 1."""
