"""The metadata log on each of its grounds."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from contract.metadata_contract import Ground, MetadataContract
from manual_ports import Hand, PromptWorkers
from penstock.core.errors import DiskFailed, TimedOut
from penstock.core.log.log import LogLimits
from penstock.core.log.recovery import open_log
from penstock.core.machines.catalog.events import Event, ProducerIdsReserved
from penstock.node.cluster.metadata_file import DIRECTORY, MetadataFile
from penstock.node.cluster.metadata_log import MetadataLog
from sim.disk import SimDisk
from sim.metadata_model import Fault, ModelMetadataLog, ModelStore

LIMITS = LogLimits(segment_bytes=1_000, segment_ms=2**62, index_interval_bytes=100)


class FileGround:
    """One owner on a disk that forgets what was not flushed. Segments are small, so that there is much to compact."""

    def __init__(self) -> None:
        self.disk = SimDisk(random.Random(1))
        self.log: MetadataFile | None = None
        self._copy: dict[str, bytes] = {}

    async def open(self) -> MetadataFile:
        if self.log is None:
            hand = Hand(self.disk.mount(), PromptWorkers())
            log = open_log(
                hand.files,
                DIRECTORY,
                LIMITS,
                recovery_offset=0,
                now_ms=hand.clock.ms,
                report=hand.words.append,
                refuses_damage=True,
            )
            self.log = MetadataFile(log, hand.runtime, 0)
            await self.log.open()
        return self.log

    async def kill(self) -> None:
        self.disk.crash()
        self.log = None

    async def compact(self) -> None:
        await (await self.open()).compact()

    async def append_unheard(self, log: MetadataLog, index: int, events: Sequence[Event]) -> None:
        """Who asked for it is cancelled while the disk is busy."""
        assert log is self.log
        asking = asyncio.ensure_future(log.append(index, events))
        await asyncio.sleep(0)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        while self.log.end_index == index:
            await asyncio.sleep(0)

    async def expire(self, name: str) -> None:
        """The disk fails: a log that takes no appends keeps nobody alive."""
        assert self.log is not None
        self.disk.fail_sync_at(1)
        with pytest.raises(DiskFailed):
            await self.log.append(self.log.end_index, [ProducerIdsReserved(1_000, 1)])
        await self.kill()

    async def back_up(self) -> None:
        files = self.disk.mount()
        self._copy = {name: files.read_whole(f"{DIRECTORY}/{name}") or b"" for name in files.names(DIRECTORY)}

    async def restore(self) -> None:
        self.disk, self.log = SimDisk(random.Random(2)), None
        files = self.disk.mount()
        files.make_dir(DIRECTORY)
        for name, content in self._copy.items():
            files.write_whole(f"{DIRECTORY}/{name}", content)
        files.sync_dir("")


class ModelGround:
    """A store that brokers share."""

    def __init__(self) -> None:
        self.store = ModelStore()
        self._copy = self.store.back_up()

    async def open(self) -> ModelMetadataLog:
        return ModelMetadataLog(self.store)

    async def kill(self) -> None:
        """The store lives on; brokers come back with nothing in their hands."""

    async def compact(self) -> None:
        self.store.compact()

    async def append_unheard(self, log: MetadataLog, index: int, events: Sequence[Event]) -> None:
        assert isinstance(log, ModelMetadataLog)
        log.faults.append(Fault.ANSWER_LOST)
        with pytest.raises(TimedOut):
            await log.append(index, events)

    async def expire(self, name: str) -> None:
        self.store.expire(name)

    async def back_up(self) -> None:
        self._copy = self.store.back_up()

    async def restore(self) -> None:
        self.store.restore(self._copy)


class TestFile(MetadataContract):
    def make_ground(self) -> Ground:
        return FileGround()


class TestModel(MetadataContract):
    def make_ground(self) -> Ground:
        return ModelGround()
