"""The metadata log on a real etcd as a ground of the contract. Each ground has a prefix of its own, so it is empty."""

from __future__ import annotations

import asyncio
import tempfile
import uuid
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from etcd_cluster import EtcdCluster, Wire
from manual_ports import PromptWorkers
from penstock.core.errors import TimedOut
from penstock.core.machines.catalog.events import Event
from penstock.node.cluster.metadata_etcd import MetadataEtcd
from penstock.node.cluster.metadata_log import MetadataLog
from penstock.node.etcd.client import EtcdClient
from penstock.node.etcd.failover import CallLimits
from penstock.node.etcd.target import EtcdTarget
from penstock.node.runtime.clock import SystemClock, SystemRng
from penstock.node.runtime.memory import MemoryFiles
from penstock.node.runtime.runtime import Runtime

PATIENT = CallLimits(30.0, 1.0)
"""Elections on a busy machine take a while."""
SHORT = CallLimits(1.0, 0.3)
TTL_S = 2


def etcd_log(
    target: EtcdTarget, limits: CallLimits = PATIENT, *, cluster_id: str = "", seen_index: int = 0
) -> MetadataEtcd:
    """Access to the log that is yet to be opened. Every append is worth a snapshot."""
    return MetadataEtcd(
        EtcdClient(target, limits),
        Runtime(SystemClock(), SystemRng(), MemoryFiles(), PromptWorkers()),
        cluster_id=cluster_id,
        seen_index=seen_index,
        session_ttl_s=TTL_S,
        snapshot_entries=1,
    )


class EtcdGround:
    """Brokers reach the members over wires, so that the test decides what arrives."""

    def __init__(self, etcd: EtcdCluster) -> None:
        self.etcd = etcd
        self.target = etcd.target(f"test-{uuid.uuid4().hex}")
        self._wires: dict[MetadataLog, list[Wire]] = {}
        self._backup = Path(tempfile.mkdtemp(prefix="etcd-backup-")) / "copy.db"

    async def open(self, limits: CallLimits = PATIENT) -> MetadataEtcd:
        wires = [Wire(address) for address in self.target.endpoints]
        near = tuple([await wire.open() for wire in wires])
        log = etcd_log(replace(self.target, endpoints=near), limits)
        self._wires[log] = wires
        await log.open()
        return log

    async def kill(self) -> None:
        self.etcd.kill()
        self.etcd.start()

    async def compact(self) -> None:
        """Write a snapshot, remove the entries that it replaces, and let etcd forget its own history as well."""
        log = await self.open()
        await log.compact()
        await self.forget_history()

    async def forget_history(self) -> None:
        """Compact etcd itself up to now."""
        fields = self.etcd.ctl("get", "nothing", "--write-out=fields").stdout
        revision = fields.split('"Revision" : ')[1].split()[0]
        self.etcd.ctl("compaction", revision)

    async def append_unheard(self, log: MetadataLog, index: int, events: Sequence[Event]) -> None:
        """The request reaches etcd, and no answer comes back."""
        lossy = await self.open(SHORT)
        await lossy.read(0)
        for wire in self._wires[lossy]:
            wire.loses_answers = True
        with pytest.raises(TimedOut, match="outcome is unknown"):
            await lossy.append(index, events)

    async def expire(self, name: str) -> None:
        """Its holder is cut off until etcd has removed the session."""
        for wires in self._wires.values():
            for wire in wires:
                wire.cut()
        watching = await self.open()
        async for live in watching.follow_sessions():
            if name not in [one.name for one in live]:
                return

    async def back_up(self) -> None:
        await asyncio.to_thread(self.etcd.back_up, self._backup)

    async def restore(self) -> None:
        await asyncio.to_thread(self.etcd.restore, self._backup)
