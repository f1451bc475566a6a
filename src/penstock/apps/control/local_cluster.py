"""The processes of a local cluster: start, adopt, stop, and who is told when one ends.

The metadata process starts first, then all brokers in parallel, then the services; they stop in the opposite order. A
process that crashes is restarted, and the other brokers hear at once that one has. Processes of an earlier coordinator
of the same directory go on if they are what this start would start, and are stopped and started anew if they are not.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import socket
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from penstock.apps.control.cluster_child import ClusterChild, CommandLine
from penstock.apps.control.cluster_plan import (
    COORDINATOR,
    METADATA,
    PORTS,
    BrokerPlan,
    ClusterPlan,
    ServicePlan,
    broker_command,
    child_environment,
    coordinator_command,
    service_command,
)
from penstock.apps.control.cluster_ready import ClusterReady, client_address
from penstock.apps.control.earlier_run import EarlierProcess, find_processes, stop_processes
from penstock.apps.ready import StartError
from penstock.core.errors import BrokerError
from penstock.core.model import Address, Storage
from penstock.node.cluster.cluster_secret import SECRET_FILE, read_secret
from penstock.node.cluster.dead_sessions import end_dead_sessions
from penstock.node.cluster.metadata_link import CoordinatorAccess
from penstock.node.cluster.metadata_target import CoordinatorTarget
from penstock.node.runtime.clock import SystemRng

STOP_S_MAX = 30.0
"""Time for a process to flush and to leave the cluster, after its connections were drained."""
EXITS_MAX = 5
"""A process that exits so often within a minute is given up, unless processes die with their parent: a service manager
that runs such a cluster expects it to go on."""

logger = logging.getLogger("penstock.cluster")


class LocalCluster:
    """The processes of one cluster. Needs a running loop. With `outlives`, they run on if this process is killed.

    `may_adopt`: processes of an earlier run were meant to run on; otherwise they are about to end by themselves.
    """

    def __init__(
        self, plan: ClusterPlan, *, logs_to_files: bool, outlives: bool = False, may_adopt: bool = False
    ) -> None:
        assert logs_to_files or not outlives, "a process that outlives its parent needs a log of its own"
        self.plan = plan
        self._logs_to_files = logs_to_files
        self._outlives = outlives
        self._may_adopt = outlives and may_adopt
        self._environment = child_environment(os.environ)
        self.stop_s_max = STOP_S_MAX + plan.settings.drain_ms_max / 1000
        is_on_disk = plan.settings.storage is Storage.DISK
        self.metadata = self._child(
            METADATA, self._metadata_command, file_name=COORDINATOR, data_dir=plan.coordinator_dir
        )
        self.brokers = [
            self._child(
                broker.name,
                partial(self._broker_command, broker),
                core=broker.core,
                on_exit=partial(self._end_sessions, index),
                data_dir=Path(broker.settings.data_dir) if is_on_disk else None,
            )
            for index, broker in enumerate(plan.brokers)
        ]
        self.services = [
            self._child(service.name, partial(self._service_command, service)) for service in plan.services
        ]

    @property
    def children(self) -> list[ClusterChild]:
        """In the order of their start."""
        return [self.metadata, *self.brokers, *self.services]

    def _child(
        self,
        name: str,
        command: CommandLine,
        *,
        file_name: str = "",
        core: int | None = None,
        on_exit: Callable[[], Awaitable[None]] | None = None,
        data_dir: Path | None = None,
    ) -> ClusterChild:
        return ClusterChild(
            name,
            command,
            self._ready_file(file_name or name),
            self.plan.log_dir / f"{file_name or name}.log" if self._logs_to_files else None,
            self._environment,
            stop_s_max=self.stop_s_max,
            core=core,
            on_exit=on_exit,
            data_dir=data_dir,
            exits_max=EXITS_MAX if self._outlives else None,
            outlives=self._outlives,
        )

    # -- commands

    def _ready_file(self, name: str) -> Path:
        return self.plan.run_dir / f"{name}.json"

    def _metadata_command(self, ready: Mapping[str, object]) -> list[str]:
        port = self.plan.coordinator_port or int(str(ready.get("port", 0)))
        return coordinator_command(self.plan, port, self._ready_file(COORDINATOR))

    def _broker_command(self, broker: BrokerPlan, ready: Mapping[str, object]) -> list[str]:
        """A port that was picked for the broker remains its own: clients and other brokers know it."""
        picked: dict[str, Any] = {
            name: int(str(ready[name]))
            for name in PORTS
            if getattr(broker.settings, name) == 0 and name in ready
        }
        settings = replace(broker.settings, metadata=self.metadata_target().url, **picked)
        return broker_command(settings, self._ready_file(broker.name))

    def _service_command(self, service: ServicePlan, ready: Mapping[str, object]) -> list[str]:
        port = service.port or int(str(ready.get("port", 0)))
        return service_command(self.plan, service, port, self.bootstrap(), self._ready_file(service.name))

    def metadata_target(self) -> CoordinatorTarget:
        """Where the metadata process is; before it runs, where it is planned."""
        port = self.metadata.ready.get("port", self.plan.coordinator_port)
        secret_file = (self.plan.coordinator_dir / SECRET_FILE).absolute()
        return CoordinatorTarget(Address("127.0.0.1", int(str(port))), str(secret_file))

    def bootstrap(self) -> str:
        """Where services find the brokers, running or not."""
        found = []
        for plan, child in zip(self.plan.brokers, self.brokers, strict=True):
            port = plan.settings.port or int(str(child.ready.get("port", 0)))
            found.append(str(client_address(plan, plan.settings.host, port)))
        return ",".join(found)

    # -- start

    async def start(self) -> ClusterReady:
        """Adopt or start everything; returns once all of it is ready. Raises StartError."""
        await self._take_over()
        self._check_ports()
        for name in self.plan.unplanned:
            logger.warning(
                "%s has data in %s and is not started: partitions that only it stores are not available; start"
                " more brokers to get them back",
                name,
                self.plan.root,
            )
        await self._start_all([self.metadata])
        if all(broker.settings.port for broker in self.plan.brokers):
            await self._start_all([*self.brokers, *self.services])
        else:
            await self._start_all(self.brokers)  # services need their addresses
            await self._start_all(self.services)
        return ClusterReady(
            self.plan,
            self.metadata.ready,
            tuple(broker.ready for broker in self.brokers),
            {service.name: service.ready for service in self.services},
            adopted=tuple(child.name for child in self.children if child.is_adopted),
        )

    async def _start_all(self, children: Sequence[ClusterChild]) -> None:
        try:
            async with asyncio.TaskGroup() as starts:
                for child in children:
                    if not child.is_wanted:
                        starts.create_task(child.start())
        except ExceptionGroup as failures:
            refusals, others = failures.split(StartError)
            if refusals is None or others is not None:
                raise
            raise StartError("\n".join(map(str, refusals.exceptions))) from None

    async def _end_sessions(self, index: int) -> None:
        """A broker has ended: others take over at once, and do not wait until its session has run out."""
        node_id, process = self.plan.brokers[index].settings.node_id, self.brokers[index].process
        target = self.metadata_target()
        try:
            access = CoordinatorAccess(target.address, read_secret(Path(target.secret_file)), node_id)
            await end_dead_sessions(access, SystemRng(), lambda: process.pid is None)
        except (BrokerError, OSError, EOFError) as error:
            logger.warning(
                "cannot tell the metadata process that broker %d has ended, its session runs out: %s",
                node_id,
                error or "no answer",
                extra={"broker": node_id},
            )

    # -- an earlier run

    async def _take_over(self) -> None:
        """Adopt processes of an earlier run that fit, and stop the others."""
        found = find_processes(self.plan.run_dir)
        running = {one.name for one in found}
        for child in self.children:
            child.remember()
            if child.file_name not in running and not self._are_free(child.ready):
                child.ready = {}
        misfits: list[EarlierProcess] = []
        for child in self.children:
            misfits += self._adopt_or_refuse(child, [one for one in found if one.name == child.file_name])
        planned = {child.file_name for child in self.children}
        for one in found:
            if one.name not in planned:
                logger.info("%s is not part of this start, stopping it", one.name, extra={"pid": one.pid})
                misfits.append(one)
        is_memory_lost = self.plan.settings.storage is Storage.MEMORY and not any(
            broker.is_adopted for broker in self.brokers
        )
        if is_memory_lost or any(one.name == COORDINATOR for one in misfits):
            # Brokers cannot go on without their metadata, nor metadata about records that are gone.
            misfits = found
            for child in self.children:
                await child.release()
                child.is_wanted = child.is_adopted = False
        await self._stop_misfits(misfits)
        if is_memory_lost:
            shutil.rmtree(self.plan.coordinator_dir, ignore_errors=True)

    def _adopt_or_refuse(self, child: ClusterChild, found: list[EarlierProcess]) -> list[EarlierProcess]:
        """The processes that cannot be adopted."""
        misfits = []
        for one in found:
            obstacle = child.obstacle(one) if self._may_adopt else "it was to end with its command"
            if not obstacle:
                try:
                    child.adopt(one)
                except ProcessLookupError:
                    logger.info("%s has ended, starting it", child.name, extra={"pid": one.pid})
                continue
            logger.info(
                "%s of an earlier run is stopped and started anew: %s",
                *(child.name, obstacle),
                extra={"pid": one.pid},
            )
            misfits.append(one)
        return misfits

    async def _stop_misfits(self, misfits: Sequence[EarlierProcess]) -> None:
        for group in stop_order(misfits):
            ends = await stop_processes(group, self.stop_s_max)
            for one in group:
                if ends[one.pid]:
                    logger.warning("%s of an earlier run: %s", one.name, ends[one.pid])

    def _are_free(self, ready: Mapping[str, object]) -> bool:
        """Whether a process could be started on the ports of its predecessor."""
        host = str(ready.get("host", ""))
        return all(not _bind_error(host, int(str(ready[name]))) for name in PORTS if ready.get(name))

    def _check_ports(self) -> None:
        """Raises StartError that names all ports in use, before anything is started."""
        running = {child.name for child in self.children if child.is_wanted}
        problems = [
            f"Cannot listen on {Address(one.host, one.port)} for {one.user}: {reason}. Choose another port with"
            f" {one.flag}."
            for one in self.plan.planned_ports()
            if one.port and one.child not in running and (reason := _bind_error(one.host, one.port))
        ]
        if problems:
            raise StartError("\n".join(problems))

    # -- stop

    async def stop(self) -> dict[str, int]:
        """Stop services, brokers, then the metadata process, which brokers need to leave the cluster. Returns the exit
        codes by name."""
        codes: dict[str, int] = {}
        for group in (self.services, self.brokers, [self.metadata]):
            ended = await asyncio.gather(*(child.stop() for child in group))
            codes |= {child.name: code for child, code in zip(group, ended, strict=True)}
        return codes

    async def kill(self) -> None:
        """Kill every process."""
        await asyncio.gather(*(child.stop(at_once=True) for child in self.children))

    async def give_up(self) -> None:
        """A start has failed: stop what it has started, and leave alone what ran before."""
        for group in (self.services, self.brokers, [self.metadata]):
            await asyncio.gather(*(child.release() if child.is_adopted else child.stop() for child in group))


def stop_order(processes: Iterable[EarlierProcess]) -> list[list[EarlierProcess]]:
    """Services, brokers, the metadata process; those of one group stop together."""
    groups: tuple[list[EarlierProcess], ...] = ([], [], [])
    for one in processes:
        groups[2 if one.name == COORDINATOR else 1 if one.name.startswith("broker-") else 0].append(one)
    return [group for group in groups if group]


def _bind_error(host: str, port: int) -> str:
    """Why a server could not listen there now; empty if it could."""
    try:
        family, kind, _, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        with socket.socket(family, kind) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(address)
    except OSError as error:
        return error.strerror or str(error)
    return ""
