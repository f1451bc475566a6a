"""Reads secrets from files. A file that others may read is used with a warning; contents are in no error."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

from penstock.client.errors import BadArgument

logger = logging.getLogger("penstock.client")

SECRET_BYTES_MAX = 1 << 20
_warned: set[str] = set()


def read_secret_file(path: str, option: str) -> str:
    """The content without the line break at its end. Raises BadArgument."""
    try:
        with Path(path).expanduser().open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read(SECRET_BYTES_MAX + 1)
    except OSError as error:
        raise BadArgument(f"cannot read {option} {path}: {(error.strerror or str(error)).lower()}") from error
    if len(content) > SECRET_BYTES_MAX:
        raise BadArgument(f"{option} {path} is larger than {SECRET_BYTES_MAX} bytes: it is not a secret")
    try:
        secret = content.decode().removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError:
        raise BadArgument(f"{option} {path} is not UTF-8 text") from None
    if not secret:
        raise BadArgument(f"{option} {path} is empty")
    if mode & 0o007 and path not in _warned:
        _warned.add(path)
        logger.warning("%s %s can be read by every user: chmod 600 %s", option, path, path)
    return secret
