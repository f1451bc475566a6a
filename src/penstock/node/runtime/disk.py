"""Files on disk with a bounded number of descriptors. Unbuffered: appends go to the page cache directly."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from threading import RLock
from typing import TypeVar

from penstock.core.errors import BrokerError, DiskFailed, DiskFull, OutOfDescriptors, TornSegment
from penstock.node.runtime.data_directory import DIRECTORY_MODE, FILE_MODE

T = TypeVar("T")
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_NO_DESCRIPTORS = (errno.EMFILE, errno.ENFILE)
TEMPORARY_SUFFIX = ".tmp"


def _disk_error(error: OSError, doing: str, path: str) -> BrokerError:
    message = f"{doing} {path}: {error.strerror or error}"
    if error.errno in _NO_DESCRIPTORS:
        return OutOfDescriptors(
            f"{message}; raise the limit of open files (ulimit -n) or lower connections_max"
        )
    return DiskFull(message) if error.errno in _FULL else DiskFailed(message)


def _open_private(path: str, flags: int) -> int:
    return os.open(path, flags, FILE_MODE)


def _make_private_dir(full_path: str) -> None:
    """As os.makedirs, which leaves the mode of parents to the umask."""
    try:
        os.mkdir(full_path, DIRECTORY_MODE)
    except FileExistsError:
        return
    except FileNotFoundError:
        _make_private_dir(os.path.dirname(full_path))
        _make_private_dir(full_path)


class DiskFile:
    """One file whose descriptor may be closed and reopened. Used by one thread at a time, except for `sync`.

    Any thread that needs a descriptor may evict this one. A user first increments the pin count, then reads the
    descriptor; the evicting thread first hides the descriptor, then reads the pin count. So at least one of the two
    always notices the other.
    """

    __slots__ = (
        "_busy",
        "_fd",
        "_files",
        "_full_path",
        "_gone",
        "_pins",
        "_size",
        "_synced",
        "_written",
        "path",
    )

    def __init__(self, files: DiskFiles, path: str, full_path: str, fd: int) -> None:
        self._files = files
        self.path = path
        self._full_path = full_path
        self._fd: int | None = fd
        self._size = os.fstat(fd).st_size
        self._written = self._synced = 0
        self._pins = 0
        self._busy = 0
        self._gone = False

    def size(self) -> int:
        return self._size

    def append(self, buffers: Sequence[bytes | bytearray | memoryview]) -> None:
        self._pins += 1
        try:
            fd = self._fd
            if fd is None:
                fd = self._files.reopen(self)
            self._write(fd, buffers)
        finally:
            self._pins -= 1

    def _write(self, fd: int, buffers: Sequence[bytes | bytearray | memoryview]) -> None:
        end = self._size
        self._written += 1
        try:
            for buffer in buffers:
                count = os.pwrite(fd, buffer, end)
                end += count
                while count < len(buffer):
                    buffer = memoryview(buffer)[count:]
                    count = os.pwrite(fd, buffer, end)
                    end += count
        except OSError as error:
            self._undo(fd)
            raise _disk_error(error, "cannot write to", self._full_path) from error
        self._size = end

    def _undo(self, fd: int) -> None:
        """Undo a partial write. If that fails too, recovery truncates the partial batch at the next start."""
        try:
            os.ftruncate(fd, self._size)
        except OSError as error:
            raise DiskFailed(
                f"cannot truncate {self._full_path} after a failed write: {error.strerror}"
            ) from error

    def read(self, position: int, length: int) -> bytes:
        self._pins += 1
        try:
            fd = self._fd
            if fd is None:
                fd = self._files.reopen(self)
            content = os.pread(fd, length, position)
            while len(content) < length:
                more = os.pread(fd, length - len(content), position + len(content))
                if not more:
                    break
                content += more
        except OSError as error:
            raise _disk_error(error, "cannot read", self._full_path) from error
        finally:
            self._pins -= 1
        return content

    def truncate(self, size: int) -> None:
        self._pins += 1
        try:
            fd = self._fd
            if fd is None:
                fd = self._files.reopen(self)
            os.ftruncate(fd, size)
        except OSError as error:
            raise _disk_error(error, "cannot truncate", self._full_path) from error
        finally:
            self._pins -= 1
        self._size = size
        self._written += 1

    def sync(self) -> None:
        fd, written = self._files.hold(self)
        try:
            if fd is not None:
                os.fdatasync(fd)
            self._synced = max(self._synced, written)
        except OSError as error:
            raise DiskFailed(f"cannot sync {self._full_path}: {error.strerror or error}") from error
        finally:
            self._files.release(self)

    def handle(self) -> int | None:
        return self._fd if self._fd is not None else self._files.reopen(self)

    def pin(self) -> None:
        self._pins += 1
        if self._fd is None:
            try:
                self._files.reopen(self)
            except BrokerError:
                self._pins -= 1
                raise

    def unpin(self) -> None:
        self._pins -= 1
        if self._gone and not self._pins:
            self._files.forget(self)

    def close(self) -> None:
        """Close the file: the descriptor is closed as soon as it is not pinned."""
        self._gone = True
        if not self._pins:
            self._files.forget(self)


class DiskFiles:
    """A directory tree. Holds at most `open_files_max` descriptors; evicts the least recently opened idle ones."""

    def __init__(self, root: Path, open_files_max: int, *, read_only: bool = False) -> None:
        self._root = str(root)
        self._access = os.O_RDONLY if read_only else os.O_RDWR
        self._open_files_max = open_files_max
        self._open: OrderedDict[DiskFile, None] = OrderedDict()
        self._lock = RLock()
        self._reserve = _Reserve()

    def _full(self, path: str) -> str:
        return f"{self._root}/{path}"

    def open(self, path: str, *, create: bool = False) -> DiskFile:
        full_path = self._full(path)
        file = DiskFile(self, path, full_path, self._open_fd(full_path, create))
        with self._lock:
            self._open[file] = None
        return file

    def _open_fd(self, full_path: str, create: bool) -> int:
        self._make_room(self._open_files_max)
        flags = self._access | os.O_CLOEXEC | (os.O_CREAT if create else 0)
        try:
            try:
                return os.open(full_path, flags, FILE_MODE)
            except OSError as error:
                if error.errno not in _NO_DESCRIPTORS:
                    raise
            self._make_room(len(self._open))
            return self._reserve.run(partial(os.open, full_path, flags, FILE_MODE))
        except FileNotFoundError as error:
            raise TornSegment(f"{full_path} does not exist") from error
        except OSError as error:
            raise _disk_error(error, "cannot open", full_path) from error

    def _make_room(self, open_max: int) -> None:
        """Evict some idle descriptors if `open_max` are open; those without unsynced writes first."""
        with self._lock:
            if len(self._open) < open_max:
                return
            idle = [file for file in self._open if not file._pins and not file._busy]
            idle.sort(key=lambda file: file._written != file._synced)
            for file in idle[: max(1, open_max // 16)]:
                self._take_fd(file)

    def _take_fd(self, file: DiskFile) -> None:
        fd, file._fd = file._fd, None
        if file._pins:
            file._fd = fd
            return
        self._open.pop(file, None)
        if fd is not None:
            os.close(fd)

    def _close_fd(self, file: DiskFile) -> None:
        self._open.pop(file, None)
        fd, file._fd = file._fd, None
        if fd is not None:
            os.close(fd)

    def reopen(self, file: DiskFile) -> int:
        """Reopen the descriptor of a file."""
        with self._lock:
            if file._fd is None:
                if file._gone:
                    raise TornSegment(f"{file._full_path} was closed and may have been replaced")
                file._fd = self._open_fd(file._full_path, create=False)
                self._open[file] = None
            return file._fd

    def hold(self, file: DiskFile) -> tuple[int | None, int]:
        """Hold the descriptor open while another thread syncs it. A closed file needs no sync."""
        with self._lock:
            file._busy += 1
            if file._gone and file._fd is None:
                return None, file._written
            return self.reopen(file), file._written

    def release(self, file: DiskFile) -> None:
        with self._lock:
            file._busy -= 1
            if file._gone and not file._pins and not file._busy:
                self._close_fd(file)

    def forget(self, file: DiskFile) -> None:
        with self._lock:
            if not file._busy:
                self._close_fd(file)

    def open_count(self) -> int:
        return len(self._open)

    # -- names

    def names(self, directory: str) -> list[str]:
        try:
            return sorted(self._reserve.run(partial(os.listdir, self._full(directory))))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise _disk_error(error, "cannot list", self._full(directory)) from error

    def exists(self, path: str) -> bool:
        return os.path.exists(self._full(path))

    def size(self, path: str) -> int:
        try:
            return os.stat(self._full(path)).st_size
        except FileNotFoundError as error:
            raise TornSegment(f"{self._full(path)} does not exist") from error
        except OSError as error:
            raise _disk_error(error, "cannot stat", self._full(path)) from error

    def make_dir(self, path: str) -> None:
        try:
            _make_private_dir(self._full(path))
        except OSError as error:
            raise _disk_error(error, "cannot create", self._full(path)) from error

    def rename(self, source: str, target: str) -> None:
        try:
            os.replace(self._full(source), self._full(target))
        except OSError as error:
            raise _disk_error(error, "cannot rename", self._full(source)) from error

    def remove(self, path: str) -> None:
        try:
            os.unlink(self._full(path))
        except FileNotFoundError:
            return
        except OSError as error:
            raise _disk_error(error, "cannot remove", self._full(path)) from error

    def remove_dir(self, path: str) -> None:
        try:
            self._reserve.run(partial(shutil.rmtree, self._full(path)))
        except FileNotFoundError:
            return
        except OSError as error:
            raise _disk_error(error, "cannot remove", self._full(path)) from error

    def space(self) -> tuple[int, int]:
        try:
            usage = shutil.disk_usage(self._root)
        except OSError as error:
            raise _disk_error(error, "cannot stat", self._root) from error
        return usage.total, usage.free

    def sync_dir(self, path: str) -> None:
        full_path = self._full(path)
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
        try:
            fd = self._reserve.run(partial(os.open, full_path, flags))
        except FileNotFoundError:
            return
        except OSError as error:
            raise _disk_error(error, "cannot sync the directory", full_path) from error
        try:
            os.fsync(fd)
        except OSError as error:
            raise DiskFailed(f"cannot sync the directory {full_path}: {error.strerror}") from error
        finally:
            os.close(fd)

    # -- whole files

    def read_whole(self, path: str) -> bytes | None:
        try:
            with self._reserve.run(lambda: open(self._full(path), "rb", buffering=0)) as file:
                return file.readall()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _disk_error(error, "cannot read", self._full(path)) from error

    def write_whole(self, path: str, content: bytes, *, sync: bool = True) -> None:
        full_path = self._full(path)
        temporary = full_path + TEMPORARY_SUFFIX
        try:
            with self._reserve.run(lambda: open(temporary, "wb", opener=_open_private)) as out:
                out.write(content)
                out.flush()
                if sync:
                    os.fsync(out.fileno())
            os.replace(temporary, full_path)
        except OSError as error:
            with suppress(OSError):
                os.unlink(temporary)
            raise _disk_error(error, "cannot write", full_path) from error
        if sync:
            self.sync_dir(path.rpartition("/")[0])


class _Reserve:
    """Reserved descriptors, for opening files and directories when the process has none left."""

    SIZE = 8

    def __init__(self) -> None:
        self._lock = RLock()
        self._spare: list[int] = []
        self._fill()

    def run(self, opening: Callable[[], T]) -> T:
        """Run `opening`; if no descriptor is left, release the reserve and run it again.

        The reserve is refilled as soon as descriptors are available.
        """
        try:
            return opening()
        except OSError as error:
            if error.errno not in _NO_DESCRIPTORS:
                raise
        with self._lock:
            self._fill()
            for fd in self._spare:
                os.close(fd)
            self._spare.clear()
            try:
                return opening()
            finally:
                self._fill()

    def _fill(self) -> None:
        with suppress(OSError):
            while len(self._spare) < self.SIZE:
                self._spare.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))


class DirectoryLock:
    """Prevents a second broker from using the same data directory, as long as this process lives."""

    def __init__(self, root: Path) -> None:
        self._fd = os.open(root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)

    def acquire(self) -> bool:
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        os.ftruncate(self._fd, 0)
        os.pwrite(self._fd, f"{os.getpid()}\n".encode(), 0)
        return True

    def is_held(self) -> bool:
        """Whether a process holds the lock. Leaves the recorded holder as it is."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        fcntl.flock(self._fd, fcntl.LOCK_UN)
        return False

    def holder(self) -> str:
        return os.pread(self._fd, 32, 0).decode(errors="replace").strip()

    def release(self) -> None:
        os.close(self._fd)
