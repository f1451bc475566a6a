"""The file with the secret that the processes of a local cluster share. Only its owner may read it.

Whoever can read the file may change the cluster's metadata; a port on loopback is open to every user of the machine.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from penstock.core.errors import InvalidConfig
from penstock.core.ports import Rng
from penstock.node.runtime.data_directory import FILE_MODE
from penstock.wire.metadata.handshake import SECRET_BYTES

SECRET_FILE = "cluster-secret"
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def make_secret(directory: Path, rng: Rng) -> bytes:
    """The secret in this directory; created on the first call. Raises OSError and InvalidConfig."""
    path = directory / SECRET_FILE
    if not path.exists():
        temporary = path.with_name(f"{SECRET_FILE}.new")
        temporary.unlink(missing_ok=True)
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        with os.fdopen(fd, "wb") as file:
            file.write(rng.bytes(SECRET_BYTES).hex().encode() + b"\n")
            file.flush()
            os.fsync(fd)
        temporary.rename(path)
    return read_secret(path)


def read_secret(path: Path) -> bytes:
    """Raises OSError if the file cannot be read, and InvalidConfig if others can or if it holds no secret."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        if os.fstat(fd).st_mode & _OF_OTHERS:
            raise InvalidConfig(
                f"other users can read the cluster secret {path}: run `chmod 600 {path}`, and replace the secret if"
                " they may have read it"
            )
        content = file.read(4 * SECRET_BYTES)
    try:
        secret = bytes.fromhex(content.decode("ascii").strip())
    except ValueError:
        secret = b""
    if len(secret) != SECRET_BYTES:
        raise InvalidConfig(
            f"{path} does not contain a cluster secret ({2 * SECRET_BYTES} hexadecimal digits): restore it, or stop"
            " the cluster and remove the file to create a new one"
        )
    return secret
