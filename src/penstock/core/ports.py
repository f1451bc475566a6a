"""The doors out of the core: files, time and chance as small protocols. Implemented by `node` and by the simulator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class File(Protocol):
    """One open file that only grows or is cut. Positions are bytes from its start. Never seeks."""

    @property
    def path(self) -> str: ...

    def size(self) -> int: ...

    def append(self, buffers: Sequence[bytes | bytearray | memoryview]) -> None:
        """Write all buffers at the end, as one. Raises DiskFailed; then nothing after the old end counts."""

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`; fewer only at the end of the file."""

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Block until the content is on stable storage (fdatasync). Raises DiskFailed. May run in a worker thread."""

    def handle(self) -> int | None:
        """A descriptor fit for sendfile, or None when there is none (memory, simulation)."""

    def pin(self) -> None:
        """Keep the content readable even if the file is removed meanwhile, until as many `unpin`s."""

    def unpin(self) -> None: ...

    def close(self) -> None: ...


class Files(Protocol):
    """A tree of files under one root.

    Paths are relative, with `/` between parts. Directories end up durable only by `sync_dir`.
    """

    def open(self, path: str, *, create: bool = False) -> File:
        """Open for reading and appending. Raises TornSegment if it is not there and `create` is false."""

    def names(self, directory: str) -> list[str]:
        """Sorted names inside a directory; empty when there is no such directory."""

    def exists(self, path: str) -> bool: ...

    def size(self, path: str) -> int:
        """Bytes in the file without opening it."""

    def make_dir(self, path: str) -> None:
        """Create it with its parents; no complaint when it is there. Does not sync."""

    def rename(self, source: str, target: str) -> None:
        """Atomically replace `target`. Does not sync the directory."""

    def remove(self, path: str) -> None:
        """Remove a file; no complaint when it is gone."""

    def remove_dir(self, path: str) -> None:
        """Remove a directory and all below it; no complaint when it is gone."""

    def space(self) -> tuple[int, int]:
        """Bytes in all and bytes free where the tree lies; -1 where that means nothing."""

    def sync_dir(self, path: str) -> None:
        """Make the names inside the directory durable. Raises DiskFailed. May run in a worker thread."""

    def read_whole(self, path: str) -> bytes | None:
        """The whole content, or None when there is no such file."""

    def write_whole(self, path: str, content: bytes, *, sync: bool = True) -> None:
        """Replace the file so that a crash leaves the old or the new content: temporary, sync, rename, sync_dir.

        Without `sync` nothing blocks on the disk; a power loss may then leave old, new or torn content.
        """


class Clock(Protocol):
    """What time it is."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since 1970."""


class Rng(Protocol):
    """Chance."""

    def bytes(self, count: int) -> bytes: ...

    def below(self, bound: int) -> int:
        """A number from 0 to bound - 1."""
