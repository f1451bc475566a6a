"""What a coordinator tells of its services and does with them. Console, HTTP API and terminal use only this."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Protocol


class ServiceKind(Enum):
    """Kinds of processes, in the order in which they start."""

    METADATA = "metadata"
    BROKER = "broker"
    PRODUCER = "producer"
    CONSUMER = "consumer"


class Health(Enum):
    """How well a service does, worst first. A level is reached only if all before it are."""

    FATAL = "fatal"
    """It exited five times within a minute and is not started again."""
    STOPPED = "stopped"
    """It was stopped on request."""
    DEAD = "dead"
    """No process; it is about to be started again."""
    STARTING = "starting"
    """The process is alive, and its port does not accept connections yet."""
    UNREACHABLE = "unreachable"
    """It was ready, is alive, and does not accept connections."""
    NOT_SERVING = "not serving"
    """It accepts connections and does not answer."""
    CATCHING_UP = "catching up"
    """It serves, and some of its replicas are not in sync."""
    HEALTHY = "healthy"

    @property
    def rank(self) -> int:
        """0 is the worst."""
        return list(Health).index(self)


@dataclass(frozen=True, slots=True)
class ServiceStatus:
    """One service at one moment."""

    name: str
    """`broker-3`, `producer`, `consumer`, `metadata`."""
    kind: ServiceKind
    health: Health
    node_id: int | None = None
    """Of a broker."""
    pid: int | None = None
    ports: Mapping[str, int] = field(default_factory=dict)
    """Port by door: `kafka`, `http`, `grpc`, …"""
    uptime_s: float | None = None
    restarts: int = 0
    """Starts after an exit that nobody asked for."""
    detail: str = ""
    """The last exit, the reason for this health, or the last lines of the log if it is FATAL."""


class ServiceError(Exception):
    """A command was refused or failed; the message says why, and what to do."""


class Services(Protocol):
    """Services of one running coordinator. A command returns once it has taken effect, or raises ServiceError."""

    @property
    def cluster_id(self) -> str: ...

    @property
    def bootstrap(self) -> str:
        """Addresses for Kafka clients."""

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of their start."""

    def status(self) -> tuple[ServiceStatus, ...]:
        """All services, in the order of their start; answers at once from what is known."""

    async def start(self, name: str) -> None:
        """Start a service that is stopped, dead or fatal, and wait until it is ready. Running already is fine."""

    async def stop(self, name: str) -> None:
        """Stop it cleanly; it stays stopped until it is started. Stopped already is fine."""

    async def restart(self, name: str) -> None: ...

    async def kill(self, name: str) -> None:
        """End it with SIGKILL, as a crash would; it is started again by itself."""

    async def restart_all(self) -> None:
        """One after another, brokers while the others serve; then the gRPC services."""

    def log_lines(self, name: str, count: int) -> list[str]:
        """The end of its log."""

    def shut_down(self) -> None:
        """Begin to stop everything in order, as SIGTERM does; returns at once."""
