"""Creates the data directory, durable and private, before anything is written to it.

Only the user that runs the broker can read its data: directories are 0700 and files 0600. An existing data directory
keeps its mode, because the operator chose it; what Penstock created inside is restricted.
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
    """Create the data directory and its missing parents, and sync their directory entries. Raises OSError."""
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
    """Restrict files that an earlier version created readable for others. A private directory protects everything
    below it."""
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
                "cannot restrict %s, other users can read it: %s; run `chmod -R go= %s` as its owner",
                path,
                error.strerror,
                root,
                extra={"path": str(path)},
            )
