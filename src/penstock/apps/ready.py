"""What a starting broker tells the outside: that it is ready, or why it is not. Never starts anything itself."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.core.model import Durability, Storage
from penstock.node.connections.addresses import Address


class StartError(Exception):
    """The broker cannot start: port taken, directory locked or unwritable. The message is one sentence for a person."""


@dataclass(frozen=True, slots=True)
class ReadyInfo:
    """A broker that accepts connections. `host` and `port` are what it listens on, with the real port."""

    host: str
    port: int
    advertised: Address
    data_dir: str
    storage: Storage
    durability: Durability
    pid: int
    doors: Mapping[str, int] = field(default_factory=dict)
    """The further doors that are open, with their real ports."""


def write_ready_file(path: Path, info: ReadyInfo) -> None:
    """Create the file whole or not at all, so that whoever waits for it never reads half. Raises StartError."""
    content = {"host": info.host, "port": info.port, "pid": info.pid, "data_dir": info.data_dir}
    content |= {f"{name}_port": port for name, port in info.doors.items()}
    temporary = path.with_name(f".{path.name}.{info.pid}.tmp")
    try:
        temporary.write_text(json.dumps(content) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise StartError(f"Cannot write the ready file {path}: {error.strerror}.") from error


def remove_ready_file(path: Path) -> None:
    """Take back the word of an earlier start. Raises StartError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StartError(f"Cannot remove the old ready file {path}: {error.strerror}.") from error
