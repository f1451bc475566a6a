"""What the comparison needs of a broker: install it and start it with a durability. Sends no load."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Protocol

from penstock.apps.bench.harness.cluster import Cluster
from penstock.apps.bench.harness.link import Address
from penstock.apps.bench.harness.process import CpuTime
from penstock.core.model import Durability

BROKERS = 3
"""Brokers of a cluster, and replicas of its partitions."""


class ServerLauncher(Protocol):
    """One broker."""

    @property
    def name(self) -> str: ...

    @property
    def settings(self) -> Mapping[str, str]:
        """Every setting that differs from the server's defaults, and why."""
        ...

    def prepare(self) -> str:
        """Find or install the broker; returns its version. Raises CannotInstall."""
        ...

    def start(self, home: Path, cpu: int, durability: Durability) -> RunningServer:
        """Start on an empty directory and return once the server accepts requests. Raises ServerFailed."""
        ...


class RunningProcess(Protocol):
    """The process of a server with its children, or those of a cluster."""

    @property
    def started_ns(self) -> int: ...

    @property
    def is_running(self) -> bool: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def kill(self) -> None: ...

    def cpu_s(self) -> float: ...

    def cpu_time(self) -> AbstractContextManager[CpuTime]: ...

    def resident_mb(self) -> float: ...


class RunningServer:
    """A started server and its ports by door."""

    def __init__(self, process: RunningProcess, ports: dict[str, int]) -> None:
        self.process = process
        self.ports = ports

    def address(self, door: str = "main") -> Address:
        return "127.0.0.1", self.ports[door]


class RunningCluster(RunningServer):
    """A started cluster; its address is that of the first broker."""

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster, {"main": cluster.addresses[0][1]})
        self.cluster = cluster


@contextmanager
def running_server(
    launcher: ServerLauncher, home: Path, cpu: int, durability: Durability
) -> Iterator[RunningServer]:
    """A ready server that is killed at the end of the block."""
    home.mkdir(parents=True, exist_ok=True)
    started = launcher.start(home, cpu, durability)
    try:
        yield started
    finally:
        started.process.kill()
