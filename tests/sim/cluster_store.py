"""Metadata stores of a simulated cluster: the model, or the coordinator process that brokers of one machine share.

The model is quick and has faults that no store of ours has; the coordinator is the program itself, on a machine with a
disk, that is killed and loses power as brokers do.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

from penstock.apps.coordinator import SETTINGS
from penstock.core.errors import BrokerError
from penstock.core.model import Address
from penstock.node.cluster.metadata_link import CoordinatorAccess
from penstock.node.cluster.metadata_log import LiveSession, SharedMetadataLog
from penstock.node.cluster.metadata_remote import RemoteMetadataLog
from penstock.node.metadata_coordinator import MetadataCoordinator, start_coordinator
from penstock.node.runtime.runtime import Runtime
from sim import metadata_host
from sim.loop import SimLoop
from sim.machine import Machine
from sim.metadata_host import NetMetadataLog, StoreHost
from sim.metadata_model import ModelStore
from sim.workers import WorkerKnobs

NAME = metadata_host.NAME
PORT = 7000
SECRET = bytes(range(32))
AWAY_S = (0.1, 1.0, 4.0)
"""How long a store stays away after a crash."""


class Store(Protocol):
    """A store on the host `NAME`, and what can happen to it."""

    async def open(
        self, runtime: Runtime, broker_id: int, cluster_id: str, seen_index: int
    ) -> SharedMetadataLog:
        """Access for one broker. Raises BrokerError."""

    def sessions(self) -> tuple[LiveSession, ...]:
        """Those that are alive, as far as that is known outside."""

    def expire(self, live: LiveSession) -> None:
        """Give up a session before its time."""

    def compact(self) -> None: ...

    def reset(self, name: str) -> None:
        """Break the connections of a host."""

    def crash(self, restart_s: float) -> None:
        """Die, and be back after a while."""

    def relent(self) -> None:
        """No more faults."""


class ModelledStore:
    """The model."""

    def __init__(self, loop: SimLoop, on_take: Callable[..., None]) -> None:
        self._loop = loop
        self._host = StoreHost(loop, ModelStore())
        self._host.store.on_take = on_take

    async def open(
        self, runtime: Runtime, broker_id: int, cluster_id: str, seen_index: int
    ) -> SharedMetadataLog:
        log = NetMetadataLog(self._host, seen_index=seen_index)
        await log.open()
        return log

    def sessions(self) -> tuple[LiveSession, ...]:
        return self._host.store.sessions.live

    def expire(self, live: LiveSession) -> None:
        self._host.expire(live)

    def compact(self) -> None:
        self._host.store.compact()

    def reset(self, name: str) -> None:
        self._host.reset(name)

    def crash(self, restart_s: float) -> None:
        """All connections break. Nothing is lost, and its sessions live on."""
        self._host.reset_all()

    def relent(self) -> None:
        """It has no disk that could be bad."""


class CoordinatorStore:
    """The coordinator of a local cluster, on a machine of its own."""

    def __init__(self, loop: SimLoop, chance: random.Random) -> None:
        self._loop = loop
        self._chance = chance
        self._machine = Machine(loop, NAME, workers=WorkerKnobs(slow_chance=0.002))
        self._coordinator: MetadataCoordinator | None = None
        self._start()

    def _start(self) -> None:
        if not self._loop.knows(NAME) or not self._loop.latest(NAME).alive:
            self._machine.boot(self._live)

    async def _live(self, machine: Machine) -> None:
        runtime = Runtime(machine.clock, machine.rng, machine.files, machine.workers)
        coordinator = await start_coordinator(runtime, SETTINGS, SECRET)
        await coordinator.listen(Address(NAME, PORT))
        self._coordinator = coordinator

    async def open(
        self, runtime: Runtime, broker_id: int, cluster_id: str, seen_index: int
    ) -> SharedMetadataLog:
        access = CoordinatorAccess(Address(NAME, PORT), SECRET, broker_id, cluster_id)
        log = RemoteMetadataLog(access, runtime, seen_index=seen_index)
        await log.open()
        return log

    def sessions(self) -> tuple[LiveSession, ...]:
        return () if self._coordinator is None else self._coordinator._leases.table.live

    def expire(self, live: LiveSession) -> None:
        if self._coordinator is not None:
            self._coordinator._leases.end(live)

    def compact(self) -> None:
        if self._coordinator is not None:
            self._loop.spawn(NAME, self._compact(self._coordinator))

    async def _compact(self, coordinator: MetadataCoordinator) -> None:
        try:
            await coordinator._log.compact()
        except BrokerError:
            return  # the next round of maintenance would try again

    def reset(self, name: str) -> None:
        self._loop.net.reset(name, NAME)

    def crash(self, restart_s: float) -> None:
        if self._coordinator is not None:
            self._coordinator = None
            self._chance.choice((self._machine.kill, self._machine.lose_power))()
            self._loop.call_later(restart_s, self._start, context=self._loop.net.context)

    def relent(self) -> None:
        self._machine.disk.relent()
        self._start()
