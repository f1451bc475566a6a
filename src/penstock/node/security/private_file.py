"""Reads and writes files that only their owner may read. Refuses a file that others can read, with the remedy."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from penstock.core.errors import InvalidConfig

PRIVATE_FILE_MODE = 0o600
SECRET_FILE_BYTES_MAX = 64 * 1024
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_ROOT = 0


def read_private(path: Path, what: str, bytes_max: int = SECRET_FILE_BYTES_MAX) -> bytes:
    """The content of a file that must be private. Raises InvalidConfig; the message starts with `what`."""
    return _read(path, what, bytes_max, is_private=True)


def read_public(path: Path, what: str, bytes_max: int) -> bytes:
    """The content of a file that everybody may read, but not write. Raises InvalidConfig."""
    return _read(path, what, bytes_max, is_private=False)


def write_private(path: Path, content: bytes) -> None:
    """Write a file with mode 0600 as a whole; an existing one is replaced. Raises OSError."""
    temporary = path.with_name(f".{path.name}.new")
    temporary.unlink(missing_ok=True)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, PRIVATE_FILE_MODE)
    with os.fdopen(fd, "wb") as file:
        os.fchmod(fd, PRIVATE_FILE_MODE)
        file.write(content)
        file.flush()
        os.fsync(fd)
    temporary.replace(path)


def _read(path: Path, what: str, bytes_max: int, *, is_private: bool) -> bytes:
    try:
        # Without O_NONBLOCK a named pipe would hold up the start for ever.
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise InvalidConfig(f"{what}: cannot read {path}: {error.strerror}") from None
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise InvalidConfig(f"{what}: {path} is not a regular file")
        if is_private:
            _check_private(path, what, found)
        elif found.st_mode & stat.S_IWOTH:
            raise InvalidConfig(f"{what}: everybody can change {path}: run `chmod o-w {path}`")
        with os.fdopen(fd, "rb", closefd=False) as file:
            content = file.read(bytes_max + 1)
    except OSError as error:
        raise InvalidConfig(f"{what}: cannot read {path}: {error.strerror}") from None
    finally:
        os.close(fd)
    if len(content) > bytes_max:
        raise InvalidConfig(f"{what}: {path} is over the limit of {bytes_max} bytes")
    return content


def _check_private(path: Path, what: str, found: os.stat_result) -> None:
    if found.st_mode & _OF_OTHERS:
        raise InvalidConfig(
            f"{what}: other users can access {path} (mode {stat.S_IMODE(found.st_mode):04o}): run `chmod 600 {path}`,"
            " and replace the secret if they may have read it"
        )
    if found.st_uid not in (os.geteuid(), _ROOT):
        raise InvalidConfig(
            f"{what}: {path} belongs to user {found.st_uid}, not to user {os.geteuid()}, who runs this: run"
            f" `chown {os.geteuid()} {path}`"
        )
