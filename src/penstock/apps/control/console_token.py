"""The token that the coordinator's console and HTTP API ask for before they change something.

A new one is written at every start of a coordinator, into a file that only its owner can read. Whoever can read the
file may control the cluster; a port on loopback is open to every user of the machine.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import stat
from pathlib import Path

TOKEN_FILE = "console-token"
TOKEN_BYTES = 32
_FILE_MODE = 0o600
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO
_TOKEN = re.compile(r"[0-9a-f]{64}")


class TokenError(Exception):
    """The token file cannot be used; the message says why, and what to do."""


def make_token(directory: Path) -> str:
    """Write a new token into the directory, over that of an earlier run. Raises OSError."""
    token = secrets.token_hex(TOKEN_BYTES)
    path = directory / TOKEN_FILE
    temporary = path.with_name(f"{TOKEN_FILE}.new")
    temporary.unlink(missing_ok=True)
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _FILE_MODE)
    with os.fdopen(fd, "w") as file:
        file.write(f"{token}\n")
    temporary.rename(path)
    return token


def remove_token(directory: Path) -> None:
    """The coordinator of the directory ends: nobody asks for its token any more."""
    (directory / TOKEN_FILE).unlink(missing_ok=True)


def read_token(path: Path) -> str:
    """The token in a file. Raises FileNotFoundError, and TokenError if it cannot be used."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise TokenError(
            f"Cannot read the token {path}: {error.strerror}. Run this as the user that runs the cluster."
        ) from error
    with os.fdopen(fd, "rb") as file:
        if os.fstat(fd).st_mode & _OF_OTHERS:
            raise TokenError(
                f"Other users can read the token {path}: run `chmod 600 {path}`, and restart the coordinator to get a"
                " new token."
            )
        content = file.read(4 * TOKEN_BYTES)
    token = content.decode("ascii", "replace").strip()
    if not _TOKEN.fullmatch(token):
        raise TokenError(f"{path} does not contain a token; restart the coordinator to get a new one.")
    return token


def is_same_token(given: str, token: str) -> bool:
    """Compares in constant time."""
    return hmac.compare_digest(given.encode(), token.encode())
