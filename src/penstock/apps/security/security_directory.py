"""The directory that `penstock security init` makes: authority, certificates, the first user, files for its clients.

Everything is mode 0600 in a directory of mode 0700. Nothing is overwritten unless that is asked for.
"""

from __future__ import annotations

import secrets
import stat
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from penstock.apps.security.client_config import ClientFiles, client_configs, curl_options, java_properties
from penstock.apps.security.development_authority import DevelopmentAuthority, IssuedCertificate
from penstock.core.authentication.scram import (
    ITERATIONS_DEFAULT,
    SALT_BYTES,
    ScramMechanism,
    derive_credential,
)
from penstock.core.authentication.secret import Secret
from penstock.core.errors import InvalidConfig
from penstock.node.security.private_file import write_private
from penstock.node.security.tls_material import CertificateFacts
from penstock.node.security.user_file import FileUser, encode_users

SECURITY_DIRECTORY_MODE = 0o700
ADMIN = "admin"
AUTHORITY, SERVER, USERS = "ca", "server", "users.json"
_PASSWORD_BYTES = 24
_OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class SecurityPlan(NamedTuple):
    """What to make."""

    directory: Path
    hosts: tuple[str, ...]
    clients: tuple[str, ...]
    """Names of further client certificates; that of the administrator is always made."""
    days: int
    force: bool = False


class SecurityDirectory(NamedTuple):
    """What was made. Holds no secret."""

    directory: Path
    files: dict[str, Path]
    """By their purpose."""
    certificates: dict[str, CertificateFacts]
    configs: dict[str, str]
    """Client configuration, by client."""


def make_security_directory(plan: SecurityPlan, now: datetime) -> SecurityDirectory:
    """Make all files. Raises InvalidConfig before anything is written, and OSError."""
    directory = plan.directory.absolute()
    for name in plan.clients:
        _check_client(name)
    authority = DevelopmentAuthority(now)
    issued = {AUTHORITY: authority.issued, SERVER: authority.issue_server(plan.hosts, plan.days)}
    issued |= {
        name: authority.issue_client(name, plan.days) for name in dict.fromkeys((ADMIN, *plan.clients))
    }
    password = Secret(secrets.token_urlsafe(_PASSWORD_BYTES))
    client = _client_files(directory, (plan.hosts or ("localhost",))[0])
    contents = _certificate_contents(directory, issued) | {
        directory / USERS: encode_users([_admin(password)]),
        client.password: password.reveal() + b"\n",
        client.properties: java_properties(client, password).encode(),
        client.curl: curl_options(client, password).encode(),
    }
    _prepare(directory, sorted(contents), force=plan.force)
    for path, content in contents.items():
        write_private(path, content)
    return SecurityDirectory(
        directory,
        {path.name: path for path in sorted(contents)},
        {name: one.facts for name, one in issued.items()},
        client_configs(client),
    )


def _client_files(directory: Path, host: str) -> ClientFiles:
    return ClientFiles(
        host=host,
        user=ADMIN,
        authorities=directory / f"{AUTHORITY}.crt",
        password=directory / f"{ADMIN}.password",
        key_store=directory / f"{ADMIN}.pem",
        certificate=directory / f"{ADMIN}.crt",
        key=directory / f"{ADMIN}.key",
        properties=directory / f"{ADMIN}.properties",
        curl=directory / f"{ADMIN}.curlrc",
    )


def _certificate_contents(directory: Path, issued: dict[str, IssuedCertificate]) -> dict[Path, bytes]:
    contents = {}
    for name, one in issued.items():
        contents[directory / f"{name}.crt"] = one.certificate
        contents[directory / f"{name}.key"] = one.key
        if name not in (AUTHORITY, SERVER):
            contents[directory / f"{name}.pem"] = one.key + one.certificate
    return contents


def _admin(password: Secret) -> FileUser:
    return FileUser(
        ADMIN,
        True,
        tuple(
            derive_credential(mechanism, password, secrets.token_bytes(SALT_BYTES), ITERATIONS_DEFAULT)
            for mechanism in ScramMechanism
        ),
    )


def _check_client(name: str) -> None:
    is_plain = name.isascii() and name.replace("-", "").replace("_", "").isalnum() and len(name) <= 64
    if not is_plain or name in (AUTHORITY, SERVER):
        raise InvalidConfig(
            f"client name {name!r}: expected at most 64 letters, digits, - and _, and neither {AUTHORITY!r} nor"
            f" {SERVER!r}"
        )


def _prepare(directory: Path, paths: Sequence[Path], *, force: bool) -> None:
    """Create the directory, private, or check that it is. Raises InvalidConfig and OSError."""
    directory.mkdir(SECURITY_DIRECTORY_MODE, parents=True, exist_ok=True)
    mode = stat.S_IMODE(directory.stat().st_mode)
    if mode & _OF_OTHERS:
        raise InvalidConfig(
            f"other users can access {directory} (mode {mode:04o}): run `chmod 700 {directory}`, or choose another"
            " directory with --dir"
        )
    existing = [path.name for path in paths if path.exists() or path.is_symlink()]
    if existing and not force:
        raise InvalidConfig(
            f"{directory} has {', '.join(existing[:4])}{' and others' if existing[4:] else ''} already: use --force to"
            " replace them all, which makes certificates of the old authority invalid, or choose another directory"
            " with --dir"
        )
