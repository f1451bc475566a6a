"""The data directory as a whole: makes it durable and private before anything is written. Never looks into a log.

Only the user that runs the broker may read what it stores: directories are 0700 and files 0600. A directory that was
there before keeps its own mode, because the operator chose it; what Penstock made inside is tightened.
"""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

logger = logging.getLogger("penstock.disk")

DIRECTORY_MODE = 0o700
FILE_MODE = 0o600
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_root(root: Path) -> None:
    """Create the data directory and its missing parents, with names that survive a power loss. Raises OSError."""
    missing = []
    at = root.absolute()
    while not at.exists():
        missing.append(at)
        at = at.parent
    for directory in reversed(missing):
        directory.mkdir(DIRECTORY_MODE, exist_ok=True)
        _sync(directory.parent)


def _sync(directory: Path) -> None:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def make_private(root: Path, names: tuple[str, ...]) -> None:
    """Tighten what an earlier version made readable for others. Closed directories protect everything below them."""
    for name in names:
        path = root / name
        try:
            mode = path.stat().st_mode
            if mode & _OF_OTHERS:
                path.chmod(mode & ~_OF_OTHERS)
        except FileNotFoundError:
            continue
        except OSError as error:
            logger.warning(
                "%s is readable for other users and cannot be changed: %s; run `chmod -R go= %s` as its owner",
                path,
                error.strerror,
                root,
            )
