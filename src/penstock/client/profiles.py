"""Profiles: named sets of connection options in a file of the user, `$XDG_CONFIG_HOME/penstock/profiles.yaml`.

    current: prod
    profiles:
      prod: {bootstrap: "broker.example:9092", tls_ca: ~/ca.pem, username: ann, password_file: ~/prod-password}

The directory has mode 0700 and the file 0600: it may contain passwords. Clients validate the values like
options from any other source.
"""

from __future__ import annotations

import difflib
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penstock.client.errors import BadArgument

PROFILE_VARIABLE = "PENSTOCK_PROFILE"
FILE_NAME = "profiles.yaml"
PROFILES_BYTES_MAX = 1 << 20
SECRETS = frozenset({"password", "token", "tls_key_password"})


@dataclass(slots=True)
class Profiles:
    """All profiles by name, and the one that commands use by default."""

    current: str | None = None
    profiles: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)

    def get(self, name: str) -> dict[str, Any]:
        """The options of a profile. Raises BadArgument."""
        if name not in self.profiles:
            close = difflib.get_close_matches(name, self.profiles, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise BadArgument(
                f"there is no profile {name!r} in {profiles_path()}.{hint} See `penstock profile list`."
            )
        return self.profiles[name]


def profiles_path() -> Path:
    """The file with the profiles."""
    home = os.environ.get("XDG_CONFIG_HOME")
    base = Path(home) if home and Path(home).is_absolute() else Path.home() / ".config"
    return base / "penstock" / FILE_NAME


def read_profile(name: str) -> dict[str, Any]:
    """The options of a profile. Raises BadArgument."""
    return dict(load_profiles().get(name))


def load_profiles() -> Profiles:
    """All profiles; none without a file. Raises BadArgument if it is invalid, or others can read secrets in it."""
    path = profiles_path()
    try:
        with path.open("rb") as file:
            mode = stat.S_IMODE(os.fstat(file.fileno()).st_mode)
            content = file.read(PROFILES_BYTES_MAX)
    except FileNotFoundError:
        return Profiles()
    except OSError as error:
        raise BadArgument(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    found = _parsed(path, content)
    if mode & 0o077 and any(SECRETS & one.keys() for one in found.profiles.values()):
        raise BadArgument(f"{path} contains passwords and can be read by others: chmod 600 {path}")
    return found


def _parsed(path: Path, content: bytes) -> Profiles:
    import yaml

    try:
        raw = yaml.safe_load(content) or {}
        current, listed = raw.get("current"), raw.get("profiles") or {}
        is_valid = isinstance(listed, Mapping) and all(isinstance(one, Mapping) for one in listed.values())
    except (yaml.YAMLError, UnicodeDecodeError, AttributeError) as error:
        # the text of a YAML error quotes the file, which may contain passwords
        mark = getattr(error, "problem_mark", None)
        where = f" (line {mark.line + 1})" if mark is not None else ""
        raise BadArgument(f"{path} is not valid YAML{where}: correct it, or remove it") from None
    if not is_valid or not isinstance(current, str | None):
        raise BadArgument(
            f"{path} must have a mapping `profiles` of names to options: correct it, or remove it"
        )
    return Profiles(current, {str(name): dict(options) for name, options in listed.items()})


def save_profiles(profiles: Profiles) -> None:
    """Replace the file atomically. Raises BadArgument if it cannot be written."""
    import tempfile

    import yaml

    path = profiles_path()
    content = yaml.safe_dump(
        {"current": profiles.current, "profiles": profiles.profiles}, sort_keys=False, allow_unicode=True
    )
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.parent.chmod(0o700)
        handle, temporary = tempfile.mkstemp(prefix=".profiles-", dir=path.parent)  # mode 0600
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(temporary).replace(path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
    except OSError as error:
        raise BadArgument(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from error
