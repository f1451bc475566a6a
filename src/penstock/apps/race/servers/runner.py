"""What every runner can do: be found, start with a promise of durability, be ended. Never carries load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from penstock.apps.race.lanes.lane import Address
from penstock.apps.race.servers.process import ServerProcess


class Promise(StrEnum):
    """What an acknowledgement means in a row, the same for all that take part in it."""

    OS = "os"
    FSYNC = "fsync"


class Runner(Protocol):
    """One broker that takes part."""

    name: str

    @property
    def settings(self) -> Mapping[str, str]:
        """Every setting that differs from the server's defaults, and why."""
        ...

    def prepare(self) -> str:
        """Find or install it; returns its version. Raises Missing."""
        ...

    def start(self, home: Path, cpu: int, promise: Promise) -> Running:
        """Start on an empty directory and return once it answers."""
        ...


class Running:
    """A started server and its ports by name."""

    def __init__(self, process: ServerProcess, ports: dict[str, int]) -> None:
        self.process = process
        self.ports = ports

    def address(self, door: str = "main") -> Address:
        return "127.0.0.1", self.ports[door]


@contextmanager
def running(runner: Runner, home: Path, cpu: int, promise: Promise) -> Iterator[Running]:
    """A ready server that ends with the block."""
    home.mkdir(parents=True, exist_ok=True)
    started = runner.start(home, cpu, promise)
    try:
        yield started
    finally:
        started.process.end()
