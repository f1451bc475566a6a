"""A private file with users and their SCRAM credentials, which a cluster takes at its first start. Never a password."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from penstock.core.authentication.failure import NotAuthenticated
from penstock.core.authentication.principal import user_principal
from penstock.core.authentication.scram import (
    USER_BYTES_MAX,
    ScramCredential,
    ScramMechanism,
    check_credential,
)
from penstock.core.errors import InvalidConfig, InvalidRequest
from penstock.node.security.private_file import read_private

USER_FILE_BYTES_MAX = 4 << 20
_VERSION = 1
_WHAT = "user file"


class FileUser(NamedTuple):
    """A user in the file."""

    name: str
    is_super_user: bool
    credentials: tuple[ScramCredential, ...]


def encode_users(users: Sequence[FileUser]) -> bytes:
    """The content of a user file."""
    content = {
        "version": _VERSION,
        "users": [
            {
                "name": user.name,
                "super_user": user.is_super_user,
                "scram": {
                    one.mechanism.value: {
                        "iterations": one.iterations,
                        **{name: base64.b64encode(getattr(one, name)).decode() for name in _BYTES},
                    }
                    for one in user.credentials
                },
            }
            for user in users
        ],
    }
    return json.dumps(content, indent=2).encode() + b"\n"


_BYTES = ("salt", "stored_key", "server_key")


def load_users(path: Path) -> tuple[FileUser, ...]:
    """The users in a private file. Raises InvalidConfig, which repeats no credential."""
    content = read_private(path, _WHAT, USER_FILE_BYTES_MAX)
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        raise InvalidConfig(f"{_WHAT}: {path} is not JSON") from None
    if (
        not isinstance(found, dict)
        or found.get("version") != _VERSION
        or not isinstance(found.get("users"), list)
    ):
        raise InvalidConfig(
            f"{_WHAT}: {path} is not a user file of version {_VERSION}; create one with `penstock security init`"
        )
    users = []
    for index, one in enumerate(found["users"]):
        try:
            users.append(_decode_user(one))
        except (
            KeyError,
            TypeError,
            ValueError,
            binascii.Error,
            InvalidRequest,
            NotAuthenticated,
        ) as error:
            raise InvalidConfig(
                f"{_WHAT}: {path} has an invalid entry, number {index}: {_reason(error)}"
            ) from None
    if len({user.name for user in users}) < len(users):
        raise InvalidConfig(f"{_WHAT}: {path} has a user twice")
    return tuple(users)


def _reason(error: Exception) -> str:
    return str(error) if isinstance(error, InvalidRequest | NotAuthenticated) else type(error).__name__


def _decode_user(found: Any) -> FileUser:
    name = found["name"]
    if (
        not isinstance(name, str)
        or len(name.encode()) > USER_BYTES_MAX
        or not isinstance(found["super_user"], bool)
    ):
        raise TypeError
    user_principal(name)
    credentials = tuple(
        ScramCredential(
            ScramMechanism(mechanism),
            int(fields["iterations"]),
            *(base64.b64decode(fields[key], validate=True) for key in _BYTES),
        )
        for mechanism, fields in found["scram"].items()
    )
    for credential in credentials:
        check_credential(credential)
    return FileUser(name, found["super_user"], credentials)
