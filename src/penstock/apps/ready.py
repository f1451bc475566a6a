"""Reports the outcome of a start: the ready file, or the reason for the failure. Never starts anything itself."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from penstock.core.model import Durability, Storage
from penstock.node.connections.addresses import Address


class StartError(Exception):
    """The broker cannot start: port in use, directory locked or not writable. The message is one sentence for users."""


@dataclass(frozen=True, slots=True)
class ReadyInfo:
    """A broker that accepts connections. `port` is the actual port, never 0."""

    host: str
    port: int
    advertised: Address
    data_dir: str
    storage: Storage
    durability: Durability
    pid: int
    doors: Mapping[str, int] = field(default_factory=dict)
    """The other open doors, with their actual ports."""


def write_ready_file(path: Path, info: ReadyInfo) -> None:
    """The host, ports, pid and data directory of a broker. Raises StartError."""
    content: dict[str, object] = {
        "host": info.host,
        "port": info.port,
        "pid": info.pid,
        "data_dir": info.data_dir,
    }
    content |= {f"{name}_port": port for name, port in info.doors.items()}
    write_json(path, content)


def write_json(path: Path, content: Mapping[str, object]) -> None:
    """Create the file atomically, so that a process waiting for it never reads a partial one. Raises StartError."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        temporary.write_text(json.dumps(content) + "\n", encoding="utf-8")
        temporary.replace(path)
    except OSError as error:
        raise StartError(f"Cannot write the ready file {path}: {error.strerror}.") from error


def remove_ready_file(path: Path) -> None:
    """Remove the file of an earlier start. Raises StartError."""
    try:
        path.unlink(missing_ok=True)
    except OSError as error:
        raise StartError(f"Cannot remove the old ready file {path}: {error.strerror}.") from error
