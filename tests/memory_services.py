"""Services of a coordinator in memory: what they are told takes effect at once. Never a process."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from penstock.apps.control.cluster_facts import LagFact, LagReport, PartitionFact
from penstock.apps.control.commands import ConsoleError, FailureKind
from penstock.apps.control.services import Health, ServiceError, ServiceKind, ServiceStatus

TOKEN = "5e" * 32


class MemoryServices:
    """Five brokers and three other services."""

    cluster_id = "MkU3OEVBNTcwNTJENDM2Qg"

    def __init__(self, brokers: int = 5) -> None:
        self._all = {
            "metadata": ServiceStatus(
                "metadata", ServiceKind.METADATA, Health.HEALTHY, pid=100, uptime_s=61.0
            )
        }
        for index in range(1, brokers + 1):
            ports = {"kafka": 9091 + index, "http": 9182 + 10 * index}
            self._all[f"broker-{index}"] = ServiceStatus(
                f"broker-{index}", ServiceKind.BROKER, Health.HEALTHY, index, 100 + index, ports, 60.0
            )
        for kind, port in ((ServiceKind.PRODUCER, 9193), (ServiceKind.CONSUMER, 9194)):
            self._all[kind.value] = ServiceStatus(
                kind.value, kind, Health.HEALTHY, pid=200 + port, ports={"grpc": port}, uptime_s=59.0
            )
        self.done: list[str] = []
        self.refuses: str | None = None
        self.gate: asyncio.Event | None = None
        """If set, changes wait for it."""
        self.logs = {name: [f"line {number} of {name}" for number in range(50)] for name in self._all}

    @property
    def bootstrap(self) -> str:
        found = [one for one in self._all.values() if one.kind is ServiceKind.BROKER]
        return ",".join(f"127.0.0.1:{one.ports['kafka']}" for one in found)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._all)

    def status(self) -> tuple[ServiceStatus, ...]:
        return tuple(self._all.values())

    def set(self, name: str, health: Health, detail: str = "") -> None:
        is_alive = health not in (Health.FATAL, Health.STOPPED, Health.DEAD)
        one = replace(self._all[name], health=health, detail=detail)
        self._all[name] = one if is_alive else replace(one, pid=None, uptime_s=None)

    async def start(self, name: str) -> None:
        await self._do("start", name, Health.HEALTHY)

    async def stop(self, name: str) -> None:
        await self._do("stop", name, Health.STOPPED)

    async def restart(self, name: str) -> None:
        await self._do("restart", name, Health.HEALTHY)

    async def kill(self, name: str) -> None:
        await self._do("kill", name, Health.DEAD)

    async def restart_all(self) -> None:
        for name in self.names:
            await self._do("restart", name, Health.HEALTHY)

    def log_lines(self, name: str, count: int) -> list[str]:
        return self.logs[name][-count:]

    def shut_down(self) -> None:
        self.done.append("shut down")

    async def _do(self, act: str, name: str, health: Health) -> None:
        if self.gate is not None:
            await self.gate.wait()
        if self.refuses is not None:
            raise ServiceError(self.refuses)
        self.done.append(f"{act} {name}")
        self.set(name, health)


class MemoryFacts:
    """A topic of four partitions, and one group."""

    is_silent = False

    async def partitions(self) -> list[PartitionFact]:
        if self.is_silent:
            raise ConsoleError(
                FailureKind.NO_CLUSTER, "The cluster does not answer: connection refused.", "Wait"
            )
        return [
            PartitionFact("orders", 0, 1, (1, 2), (1, 2)),
            PartitionFact("orders", 1, 2, (2, 3), (2,)),
            PartitionFact("orders", 2, None, (3, 4), ()),
            PartitionFact("orders", 3, 1, (1, 5), (1, 5)),
        ]

    async def lag(self) -> LagReport:
        return LagReport([LagFact("billing", "orders", 4, 17)], 3)
