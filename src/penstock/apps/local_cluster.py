"""Runs a local cluster in the foreground, for `penstock cluster up` and `penstock start --cores`.

The coordinator starts first, then all brokers in parallel; brokers stop first. Processes that crash are restarted, and
the other brokers hear at once that one has. The processes die with this one even if it is killed. A directory belongs
to one cluster at a time.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from penstock.apps.cluster_child import ClusterChild
from penstock.apps.cluster_plan import (
    COORDINATOR,
    PORTS,
    BrokerPlan,
    ClusterPlan,
    broker_command,
    child_environment,
    coordinator_command,
    port_flag,
)
from penstock.apps.process import CLUSTER_FILE, lock_directory
from penstock.apps.ready import StartError
from penstock.core.errors import BrokerError
from penstock.core.model import Address, Storage
from penstock.node.checkpoint import IDENTITY_FILE
from penstock.node.cluster.cluster_secret import read_secret
from penstock.node.cluster.dead_sessions import end_dead_sessions
from penstock.node.cluster.metadata_link import CoordinatorAccess
from penstock.node.cluster.metadata_target import CoordinatorTarget
from penstock.node.connections.addresses import advertised_address, is_loopback
from penstock.node.runtime.clock import SystemRng
from penstock.node.runtime.data_directory import DIRECTORY_MODE
from penstock.node.runtime.disk import DirectoryLock

STOP_S_MAX = 30.0
"""Time for a broker to flush and to leave the cluster, after its connections were drained."""
EARLIER_S_MAX = 30.0
"""How long a start waits for processes of an earlier run, which end by themselves when their parent was killed."""
EARLIER_POLL_S = 0.05

logger = logging.getLogger("penstock.cluster")


@dataclass(frozen=True, slots=True)
class ClusterReady:
    """A cluster whose brokers all accept clients."""

    plan: ClusterPlan
    coordinator: Mapping[str, object]
    brokers: tuple[Mapping[str, object], ...]
    """What each broker wrote into its ready file."""

    @property
    def bootstrap(self) -> str:
        return ",".join(map(str, self.addresses))

    @property
    def addresses(self) -> list[Address]:
        """Where clients reach each broker."""
        found = []
        for plan, ready in zip(self.plan.brokers, self.brokers, strict=True):
            host, port = str(ready["host"]), int(str(ready["port"]))
            found.append(
                Address(host, port) if is_loopback(host) else advertised_address(plan.settings, port)
            )
        return found

    def content(self) -> dict[str, object]:
        """For programs: the ready line and the ready file."""
        first = self.brokers[0]
        return {
            "bootstrap": self.bootstrap,
            "host": first["host"],
            "port": first["port"],
            "pid": os.getpid(),
            "data_dir": str(self.plan.root),
            "cluster_id": self.coordinator["cluster_id"],
            "coordinator": dict(self.coordinator),
            "brokers": [
                {"node_id": plan.settings.node_id, **ready}
                for plan, ready in zip(self.plan.brokers, self.brokers, strict=True)
            ],
        }


def run_cluster(plan: ClusterPlan, on_ready: Callable[[ClusterReady], None], *, logs_to_files: bool) -> int:
    """Run until SIGTERM, SIGINT or SIGHUP; returns the exit code. Raises StartError if it cannot start."""
    if (plan.root / IDENTITY_FILE).exists():
        raise StartError(
            f"The data directory {plan.root} holds the data of a single broker; choose another --data-dir for a"
            " cluster, or start that broker with `penstock start`."
        )
    lock = lock_directory(plan.root, (), "local cluster")
    try:
        _make_directories(plan)
        return asyncio.run(LocalCluster(plan, logs_to_files=logs_to_files).run(on_ready))
    finally:
        lock.release()


def _make_directories(plan: ClusterPlan) -> None:
    try:
        for name in ("logs", "run"):
            (plan.root / name).mkdir(DIRECTORY_MODE, exist_ok=True)
        (plan.root / CLUSTER_FILE).write_text(json.dumps({"layout": 1}) + "\n", encoding="utf-8")
    except OSError as error:
        raise StartError(f"Cannot use the data directory {plan.root}: {error.strerror}.") from error


class LocalCluster:
    """The processes of one cluster. Needs a running loop."""

    def __init__(self, plan: ClusterPlan, *, logs_to_files: bool) -> None:
        self._plan = plan
        self._logs_to_files = logs_to_files
        self._environment = child_environment(os.environ)
        self.coordinator = self._child(
            COORDINATOR,
            lambda ready: coordinator_command(
                plan, int(str(ready.get("port", plan.coordinator_port))), self._ready_file(COORDINATOR)
            ),
        )
        self.brokers = [
            self._child(
                broker.name,
                partial(self._broker_command, broker),
                core=broker.core,
                on_exit=partial(self._end_sessions, index),
            )
            for index, broker in enumerate(plan.brokers)
        ]

    def _child(
        self,
        name: str,
        command: Callable[[Mapping[str, object]], list[str]],
        *,
        core: int | None = None,
        on_exit: Callable[[], Awaitable[None]] | None = None,
    ) -> ClusterChild:
        return ClusterChild(
            name,
            command,
            self._ready_file(name),
            self._plan.root / "logs" / f"{name}.log" if self._logs_to_files else None,
            self._environment,
            stop_s_max=STOP_S_MAX + self._plan.settings.drain_ms_max / 1000,
            core=core,
            on_exit=on_exit,
        )

    def _ready_file(self, name: str) -> Path:
        return self._plan.root / "run" / f"{name}.json"

    def _broker_command(self, broker: BrokerPlan, ready: Mapping[str, object]) -> list[str]:
        """A port that was picked for the broker remains its own: clients and other brokers know it."""
        target = self._coordinator_target()
        ports: dict[str, Any] = {name: int(str(ready[name])) for name in PORTS if name in ready}
        settings = replace(broker.settings, metadata=target.url, **ports)
        return broker_command(settings, self._ready_file(broker.name))

    def _coordinator_target(self) -> CoordinatorTarget:
        at = self.coordinator.ready
        return CoordinatorTarget(Address(str(at["host"]), int(str(at["port"]))), str(at["secret_file"]))

    async def _end_sessions(self, index: int) -> None:
        """A broker has ended: others take over at once, and do not wait until its session has run out."""
        node_id, process = self._plan.brokers[index].settings.node_id, self.brokers[index].process
        target = self._coordinator_target()
        try:
            access = CoordinatorAccess(target.address, read_secret(Path(target.secret_file)), node_id)
            await end_dead_sessions(access, SystemRng(), lambda: process.pid is None)
        except (BrokerError, OSError, EOFError) as error:
            logger.warning(
                "cannot tell the coordinator that broker %d has ended, its session runs out: %s",
                node_id,
                error or "no answer",
                extra={"broker": node_id},
            )

    async def run(self, on_ready: Callable[[ClusterReady], None]) -> int:
        """Run until a signal; returns 0 if every process stopped cleanly. A second signal kills them."""
        loop = asyncio.get_running_loop()
        stops: asyncio.Queue[None] = asyncio.Queue()
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # started with nohup, or in the background
                loop.add_signal_handler(number, stops.put_nowait, None)
        stopped = loop.create_task(stops.get())
        starting = loop.create_task(self._start())
        try:
            await asyncio.wait({starting, stopped}, return_when=asyncio.FIRST_COMPLETED)
            if starting.done():
                on_ready(starting.result())
                await stopped
            logger.info("stopping")
        finally:
            is_clean = await self._end(starting, stopped, stops)
        logger.info("stopped cleanly" if is_clean else "stopped; the next start must recover")
        return 0 if is_clean else 1

    async def _start(self) -> ClusterReady:
        await self._await_earlier_run()
        self._check_ports()
        for name in self._plan.unplanned:
            logger.warning(
                "%s has data in %s and is not started: partitions that only it stores are not available; start"
                " more brokers to get them back",
                name,
                self._plan.root,
            )
        await self.coordinator.start()
        try:
            async with asyncio.TaskGroup() as starts:
                for broker in self.brokers:
                    starts.create_task(broker.start())
        except ExceptionGroup as failures:
            refusals, others = failures.split(StartError)
            if refusals is None or others is not None:
                raise
            raise StartError("\n".join(map(str, refusals.exceptions))) from None
        return ClusterReady(
            self._plan, self.coordinator.ready, tuple(broker.ready for broker in self.brokers)
        )

    async def _end(
        self, starting: asyncio.Task[ClusterReady], stopped: asyncio.Task[None], stops: asyncio.Queue[None]
    ) -> bool:
        """Stop everything that runs; True if all of it exited cleanly."""
        starting.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        stopping = asyncio.get_running_loop().create_task(self._stop())
        stopped.cancel()
        again = asyncio.get_running_loop().create_task(stops.get())
        await asyncio.wait({stopping, again}, return_when=asyncio.FIRST_COMPLETED)
        if not stopping.done():
            logger.warning("second signal: killing all processes of the cluster")
            stopping.cancel()
            await asyncio.gather(stopping, return_exceptions=True)
            await asyncio.gather(*(one.stop(at_once=True) for one in (*self.brokers, self.coordinator)))
            return False
        again.cancel()
        return stopping.result()

    async def _stop(self) -> bool:
        """Brokers first, in parallel: they need the coordinator to leave the cluster."""
        codes = await asyncio.gather(*(broker.stop() for broker in self.brokers))
        codes.append(await self.coordinator.stop())
        return not any(codes)

    # -- before the start

    async def _await_earlier_run(self) -> None:
        """Processes whose parent was killed stop by themselves, which takes a moment."""
        loop = asyncio.get_running_loop()
        deadline, is_told = loop.time() + EARLIER_S_MAX, False
        while (found := self._find_earlier()) is not None:
            name, pid = found
            if loop.time() > deadline:
                raise StartError(
                    f"{name} of an earlier run is still running (pid {pid}); stop it with `kill {pid}`, then start"
                    " again."
                )
            if not is_told:
                logger.info(
                    "waiting for processes of an earlier run to stop", extra={"child": name, "pid": pid}
                )
                is_told = True
            await asyncio.sleep(EARLIER_POLL_S)

    def _find_earlier(self) -> tuple[str, str] | None:
        """Name and pid of a process that still uses the directory of one of ours."""
        plan = self._plan
        is_on_disk = plan.settings.storage is Storage.DISK
        names = [COORDINATOR, *(broker.name for broker in plan.brokers if is_on_disk)]
        for name in names:
            if not (plan.root / name / ".lock").exists():
                continue
            lock = DirectoryLock(plan.root / name)
            try:
                if not lock.acquire():
                    return name, lock.holder()
            finally:
                lock.release()
        return None

    def _check_ports(self) -> None:
        """Raises StartError that names all ports in use, before anything is started."""
        plan, host = self._plan, self._plan.settings.host
        wanted = [("127.0.0.1", plan.coordinator_port, "the coordinator", "--base-port")]
        for broker in plan.brokers:
            for setting, port in broker.ports.items():
                door = "Kafka" if setting == "port" else setting.removesuffix("_port")
                wanted.append((host, port, f"the {door} door of {broker.name}", port_flag(setting)))
        problems = [
            f"Cannot listen on {Address(at, port)} for {user}: {reason}. Choose another port with {flag}."
            for at, port, user, flag in wanted
            if port and (reason := _bind_error(at, port))
        ]
        if problems:
            raise StartError("\n".join(problems))


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
