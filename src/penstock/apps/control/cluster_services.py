"""The services of a running coordinator: their status, and commands on them. Implements `Services`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress

from penstock.apps.control.cluster_child import ClusterChild
from penstock.apps.control.cluster_plan import CONSUMER, METADATA, PRODUCER
from penstock.apps.control.health_monitor import HealthMonitor
from penstock.apps.control.local_cluster import LocalCluster
from penstock.apps.control.services import Health, ServiceError, ServiceKind, ServiceStatus
from penstock.apps.ready import StartError
from penstock.apps.supervised_process import describe_exit

HEALTHY_S_MAX = 120.0
"""How long a restart of all waits for a broker to catch up before it restarts the next one."""
SERVES_S_MAX = 5.0
"""How long a start waits until the service serves, after it was ready: a gRPC service looks for brokers first."""
HEALTH_POLL_S = 0.1
LOG_BYTES_MAX = 1 << 20
_KINDS = {METADATA: ServiceKind.METADATA, PRODUCER: ServiceKind.PRODUCER, CONSUMER: ServiceKind.CONSUMER}

logger = logging.getLogger("penstock.cluster")


class ClusterServices:
    """Commands on one service run one after another; those on several services at the same time."""

    def __init__(
        self,
        cluster: LocalCluster,
        monitor: HealthMonitor,
        cluster_id: str,
        bootstrap: str,
        shut_down: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._monitor = monitor
        self._children = {child.name: child for child in cluster.children}
        self._turns = {name: asyncio.Lock() for name in self._children}
        self._shut_down = shut_down
        self.cluster_id = cluster_id
        self.bootstrap = bootstrap

    @property
    def names(self) -> tuple[str, ...]:
        """In the order of their start."""
        return tuple(self._children)

    def status(self) -> tuple[ServiceStatus, ...]:
        """All services, from what is known."""
        return tuple(self._status(name, child) for name, child in self._children.items())

    def _status(self, name: str, child: ClusterChild) -> ServiceStatus:
        health, detail = self._monitor.health_of(child)
        kind = _KINDS.get(child.name, ServiceKind.BROKER)
        is_broker = kind is ServiceKind.BROKER
        return ServiceStatus(
            name=name,
            kind=kind,
            health=health,
            node_id=int(name.removeprefix("broker-")) if is_broker else None,
            pid=child.process.pid,
            ports=_ports(kind, child.ready),
            uptime_s=child.process.uptime_s,
            restarts=child.process.restart_count,
            detail=detail or child.process.last_exit,
        )

    # -- commands

    async def start(self, name: str) -> None:
        """Start a service that does not run, and wait until it serves."""
        child = self._find(name)
        async with self._turns[name]:
            await self._start(child)

    async def stop(self, name: str) -> None:
        """Stop it cleanly."""
        child = self._find(name)
        async with self._turns[name]:
            await self._stop(child)

    async def restart(self, name: str) -> None:
        """Stop it cleanly if it runs, then start it."""
        child = self._find(name)
        async with self._turns[name]:
            await self._restart(child)

    async def kill(self, name: str) -> None:
        """SIGKILL; returns when the process has ended."""
        child = self._find(name)
        async with self._turns[name]:
            if child.process.pid is None:
                raise ServiceError(f"{name} is not running; start it first.")
            logger.info("killing %s on request", name, extra={"pid": child.process.pid})
            child.process.kill()
            await child.process.wait()

    async def restart_all(self) -> None:
        """One after another; the next broker only when the last one has caught up, so that its replicas serve on."""
        for name, child in self._children.items():
            async with self._turns[name]:
                await self._restart(child)
            await self._await_healthy(name, child)

    def log_lines(self, name: str, count: int) -> list[str]:
        """The end of its log."""
        path = self._find(name).log_file
        if path is None:
            raise ServiceError(f"{name} has no log file; its output is on the stderr of this command.")
        if count <= 0:
            return []
        with suppress(FileNotFoundError), path.open("rb") as log:
            log.seek(max(0, path.stat().st_size - LOG_BYTES_MAX))
            return log.read().decode(errors="replace").splitlines()[-count:]
        return []

    def shut_down(self) -> None:
        """Begin to stop everything, as SIGTERM does."""
        self._shut_down()

    def _find(self, name: str) -> ClusterChild:
        if name not in self._children:
            raise ServiceError(f"There is no service {name!r}; there are {', '.join(self._children)}.")
        return self._children[name]

    async def _start(self, child: ClusterChild) -> None:
        if child.is_ready and child.is_wanted:
            return
        await child.stop()  # ends the wait for the next restart
        try:
            await child.start()
        except StartError as error:
            raise ServiceError(str(error)) from error
        await self._monitor.ask_all()
        await self._reaches(child, Health.CATCHING_UP, SERVES_S_MAX)

    async def _stop(self, child: ClusterChild) -> None:
        child.failure = ""
        code = await child.stop()
        if code:
            raise ServiceError(
                f"{child.name} has stopped, but not cleanly ({describe_exit(code)}); its next start recovers. Its log"
                " says more."
            )

    async def _restart(self, child: ClusterChild) -> None:
        await self._stop(child)
        await self._start(child)

    async def _await_healthy(self, name: str, child: ClusterChild) -> None:
        if await self._reaches(child, Health.HEALTHY, HEALTHY_S_MAX):
            return
        health, detail = self._monitor.health_of(child)
        raise ServiceError(
            f"{name} is {health.value} after {HEALTHY_S_MAX:.0f} s ({detail}); the services"
            " after it were not restarted."
        )

    async def _reaches(self, child: ClusterChild, least: Health, s_max: float) -> bool:
        """Whether a service is at least this well within a time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(s_max):
                while self._monitor.health_of(child).health.rank < least.rank:
                    await asyncio.sleep(HEALTH_POLL_S)
                return True
        return False


def _ports(kind: ServiceKind, ready: Mapping[str, object]) -> dict[str, int]:
    main = {ServiceKind.METADATA: "metadata", ServiceKind.BROKER: "kafka"}.get(kind, "grpc")
    ports = {main: ready["port"]} if "port" in ready else {}
    ports |= {name.removesuffix("_port"): port for name, port in ready.items() if name.endswith("_port")}
    return {name: int(str(port)) for name, port in ports.items()}
