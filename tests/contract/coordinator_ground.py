"""The metadata log of a real coordinator process, reached through a relay that can lose answers and cut lines."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from manual_ports import Hand
from penstock.core.errors import TimedOut
from penstock.core.machines.catalog.events import Event
from penstock.core.model import Address
from penstock.node.cluster.cluster_secret import read_secret
from penstock.node.cluster.metadata_link import CoordinatorAccess
from penstock.node.cluster.metadata_log import MetadataLog
from penstock.node.cluster.metadata_remote import RemoteMetadataLog
from penstock.node.runtime.clock import SystemRng
from penstock.wire.metadata.frames import AppendDone, decode

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("coordinator_process.py")
TTL_MS = 6_000


class CoordinatorProcess:
    """One directory, and the process over it while it runs. It keeps its port."""

    def __init__(self, home: Path, script: Path = SCRIPT) -> None:
        self.home = home
        self.data_dir = home / "coordinator"
        self.port = 0
        self.ready: dict[str, Any] = {}
        self._script = script
        self.process: subprocess.Popen[str] | None = None

    def start(self, ttl_ms: int = TTL_MS) -> None:
        path = os.pathsep.join((str(ROOT / "src"), os.environ.get("PYTHONPATH", "")))
        self.process = subprocess.Popen(
            [
                *(sys.executable, str(self._script), "--data-dir", str(self.data_dir)),
                *("--port", str(self.port), "--session-ttl-ms", str(ttl_ms)),
            ],
            stdout=subprocess.PIPE,
            stderr=(self.home / "coordinator.log").open("a"),
            text=True,
            env={**os.environ, "PYTHONPATH": path},
        )
        line = self.line()
        assert line, self.output()
        self.ready = json.loads(line)
        self.port = self.ready["port"]

    def line(self) -> str:
        assert self.process is not None and self.process.stdout is not None
        return self.process.stdout.readline()

    def output(self) -> str:
        return (self.home / "coordinator.log").read_text()

    def send(self, number: signal.Signals) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def kill(self) -> None:
        if self.process is not None:
            self.send(signal.SIGKILL)
            self._reap()

    def stop(self) -> int:
        self.send(signal.SIGTERM)
        return self._reap()

    def _reap(self) -> int:
        assert self.process is not None and self.process.stdout is not None
        code = self.process.wait()
        self.process.stdout.close()
        self.process = None
        return code

    def access(self, broker_id: int = 0, **more: Any) -> CoordinatorAccess:
        secret = read_secret(Path(self.ready["secret_file"]))
        return CoordinatorAccess(Address("127.0.0.1", self.port), secret, broker_id, **more)


class Relay:
    """Carries frames between brokers and the coordinator, unless told otherwise."""

    def __init__(self, port: int) -> None:
        self._target_port = port
        self.is_cut = False
        self.loses_done = False
        """The next reply to an append is lost, and the line with it."""
        self._lines: list[asyncio.StreamWriter] = []
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self) -> int:
        self._server = await asyncio.start_server(self._carry, "127.0.0.1", 0)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    def cut(self) -> None:
        """All lines break, and new ones are refused until `heal`."""
        self.is_cut = True
        self._break()

    def heal(self) -> None:
        self.is_cut = False

    def _break(self) -> None:
        lines, self._lines = self._lines, []
        for writer in lines:
            writer.transport.abort()

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._lines.append(writer)
        if self.is_cut:
            self._break()
            return
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._target_port)
        except OSError:
            writer.transport.abort()
            return
        self._lines.append(far_writer)
        for work in (self._forward(reader, far_writer), self._forward(far_reader, writer, is_back=True)):
            self._tasks.add(asyncio.ensure_future(work))

    async def _forward(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, is_back: bool = False
    ) -> None:
        try:
            while True:
                head = await reader.readexactly(4)
                frame = await reader.readexactly(int.from_bytes(head, "big"))
                if is_back and self.loses_done and isinstance(decode(frame)[1], AppendDone):
                    self.loses_done = False
                    self._break()
                    return
                writer.write(head + frame)
        except (OSError, EOFError):
            writer.transport.abort()


class CoordinatorGround:
    """Brokers reach the coordinator through the relay; `direct` ones do not."""

    def __init__(self, home: Path) -> None:
        self.server = CoordinatorProcess(home)
        self.relay: Relay | None = None
        self._relay_port = 0
        self._logs: list[RemoteMetadataLog] = []

    async def open(self) -> RemoteMetadataLog:
        if self.server.process is None:
            self.server.start()
        if self.relay is None:
            self.relay = Relay(self.server.port)
            self._relay_port = await self.relay.open()
        access = replace(self.server.access(len(self._logs)), address=Address("127.0.0.1", self._relay_port))
        return await self._opened(access)

    async def direct(self) -> RemoteMetadataLog:
        return await self._opened(self.server.access(100))

    async def _opened(self, access: CoordinatorAccess) -> RemoteMetadataLog:
        log = RemoteMetadataLog(access, runtime())
        await log.open()
        self._logs.append(log)
        return log

    async def kill(self) -> None:
        self.server.kill()
        self.server.start()

    async def compact(self) -> None:
        self.server.send(signal.SIGUSR1)
        assert self.server.line() == "compacted\n"

    async def append_unheard(self, log: MetadataLog, index: int, events: Sequence[Event]) -> None:
        assert self.relay is not None
        self.relay.loses_done = True
        with pytest.raises(TimedOut, match="outcome of the append at index 1 is unknown"):
            await log.append(index, events)
        assert not self.relay.loses_done

    async def expire(self, name: str) -> None:
        """The holder is cut off. The next run of the coordinator has little patience, and the one after it again."""
        assert self.relay is not None
        self.relay.cut()
        self.server.kill()
        self.server.start(ttl_ms=100)
        async for live in (await self.direct()).follow_sessions():
            if name not in [one.name for one in live]:
                break
        await self.kill()
        self.relay.heal()

    async def back_up(self) -> None:
        shutil.copytree(self.server.data_dir, self.server.home / "copy")

    async def restore(self) -> None:
        self.server.kill()
        shutil.rmtree(self.server.data_dir)
        shutil.copytree(self.server.home / "copy", self.server.data_dir)
        self.server.start()


def runtime() -> Any:
    """Of a broker: only chance is real."""
    return replace(Hand().runtime, rng=SystemRng())
