"""Loads a secret from where a setting points to: `file:PATH` or `env:NAME`. Never takes the secret itself.

A secret in a settings file or on a command line ends up in backups, in `ps` and in `config explain`.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.core.authentication.secret import Secret
from penstock.core.errors import InvalidConfig
from penstock.node.security.private_file import SECRET_FILE_BYTES_MAX, read_private

_FILE, _ENVIRONMENT = "file:", "env:"


def load_secret(source: str, what: str, environment: Mapping[str, str]) -> Secret:
    """The secret that `source` points to. Raises InvalidConfig, which does not repeat the source if it has neither
    form: it may be the secret."""
    if source.startswith(_FILE):
        return load_secret_file(Path(source.removeprefix(_FILE)), what)
    if source.startswith(_ENVIRONMENT):
        name = source.removeprefix(_ENVIRONMENT)
        if not environment.get(name):
            raise InvalidConfig(f"{what}: the environment variable {name} is not set or empty")
        return Secret(environment[name])
    raise InvalidConfig(f"{what}: expected file:PATH or env:NAME; a secret itself is not accepted here")


def load_secret_file(path: Path, what: str) -> Secret:
    """The secret in a private file, without the line break at its end. Raises InvalidConfig."""
    content = read_private(path, what, SECRET_FILE_BYTES_MAX)
    secret = content.removesuffix(b"\n").removesuffix(b"\r")
    if not secret:
        raise InvalidConfig(f"{what}: {path} is empty")
    if b"\0" in secret or b"\n" in secret:
        raise InvalidConfig(
            f"{what}: {path} has more than one line or binary content; expected one line of text"
        )
    return Secret(secret)
