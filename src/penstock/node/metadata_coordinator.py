"""The coordinator of the brokers on one machine: owns the metadata log in its directory and serves it on loopback.

It decides nothing and holds no partition. Several brokers on one machine gain nothing by voting: if the machine or its
disk fails, all of them are gone; if this process dies, it is started again and brokers reconnect.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from penstock.core.errors import BrokerError
from penstock.core.log.recovery import open_log
from penstock.node import checkpoint
from penstock.node.cluster import metadata_file
from penstock.node.cluster.leases import SESSIONS_FILE, Leases
from penstock.node.cluster.metadata_file import MetadataFile
from penstock.node.cluster.metadata_log import SESSION_TTL_S
from penstock.node.cluster.metadata_service import MetadataService
from penstock.node.connections.addresses import Address
from penstock.node.connections.connection_settings import ConnectionSettings
from penstock.node.connections.gate import Gate
from penstock.node.connections.listener import Listener
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.tasks import Tasks

logger = logging.getLogger("penstock.coordinator")

COORDINATOR_NODE_ID = -1
"""In the identity file: no broker can be started on a coordinator's directory, and the reverse."""
UPKEEP_S = 60.0
"""How often the log is compacted and its recovery point saved."""
LINGER_STEP_S = 0.02
COORDINATOR_FILES = (metadata_file.DIRECTORY, SESSIONS_FILE, *checkpoint.FILE_NAMES)


class MetadataCoordinator:
    """The log, its sessions and the port. Created by `start_coordinator`."""

    def __init__(
        self, runtime: Runtime, gate: Gate, log: MetadataFile, leases: Leases, service: MetadataService
    ) -> None:
        self._runtime = runtime
        self._gate = gate
        self._log = log
        self._leases = leases
        self._service = service
        self._upkeep = Tasks()
        self._listener: Listener | None = None
        self.cluster_id = service.cluster_id

    @property
    def failed(self) -> asyncio.Future[BrokerError]:
        """Set once the log accepts no more appends: the process must be restarted."""
        return self._service.failed

    async def listen(self, address: Address) -> Address:
        """Accept brokers; returns the address with the actual port. Raises OSError."""
        self._listener = Listener(self._gate, address, lambda: self._service)
        bound = await self._listener.open()
        await self._listener.serve()
        self._gate.watch()
        self._upkeep.spawn(self._maintain())
        return bound

    async def brokers_gone(self, wait_s_max: float) -> None:
        """Serve on until no broker is connected, at most for this long."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + wait_s_max
        while self._gate.connections and loop.time() < deadline:
            await asyncio.sleep(LINGER_STEP_S)

    async def stop(self) -> bool:
        """Finish the appends in progress, disconnect the brokers, close the log; False if that was not clean."""
        await self._upkeep.stop()
        if self._listener is not None:
            self._listener.close()
        await self._gate.drain()
        await self._service.stop()
        self._leases.close()
        is_healthy = not self.failed.done()
        try:
            self._log.close()
            self._save_recovery_point()
            if is_healthy:
                checkpoint.write_clean_marker(self._runtime.files, self._runtime.clock.now_ms())
        except BrokerError as error:
            logger.error("cannot save the clean-shutdown state; the next start verifies the log: %s", error)
            return False
        return is_healthy

    async def _maintain(self) -> None:
        while True:
            await asyncio.sleep(UPKEEP_S)
            try:
                await self._log.compact()
                self._save_recovery_point()
            except BrokerError as error:
                logger.error("cannot compact the metadata log; the next round retries: %s", error)

    def _save_recovery_point(self) -> None:
        checkpoint.save_recovery_points(self._runtime.files, {metadata_file.DIRECTORY: self._log.end_index})


async def start_coordinator(
    runtime: Runtime, settings: ConnectionSettings, secret: bytes, ttl_s: float = SESSION_TTL_S
) -> MetadataCoordinator:
    """Recover the metadata log from the directory, or initialize a new cluster."""
    files = runtime.files
    checkpoint.require_identity(files, (metadata_file.DIRECTORY,))
    was_clean = checkpoint.take_clean_marker(files)
    identity = checkpoint.load_identity(files, runtime.rng, COORDINATOR_NODE_ID, was_clean=was_clean)
    log = open_log(
        files,
        metadata_file.DIRECTORY,
        metadata_file.LIMITS,
        recovery_offset=checkpoint.load_recovery_points(files).get(metadata_file.DIRECTORY, 0),
        now_ms=runtime.clock.now_ms(),
        report=partial(logger.warning, "metadata: %s"),
        refuses_damage=True,
    )
    file = MetadataFile(log, runtime, identity.run_epoch)
    await file.open()
    leases = Leases(runtime, ttl_s)
    service = MetadataService(file, leases, runtime, identity.cluster_id, secret)
    return MetadataCoordinator(runtime, Gate(settings, runtime.meters), file, leases, service)
