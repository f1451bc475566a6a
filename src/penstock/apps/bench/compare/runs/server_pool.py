"""Servers that stay up across rows, so that they are warm. One runs at a time; the others are paused.

A server whose run failed is killed: the next run gets a new one, which is warmed up again.
"""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from penstock.apps.bench.compare.runs.contenders import Contender
from penstock.apps.bench.compare.servers.launcher import RunningServer
from penstock.core.model import Durability


@dataclass(slots=True)
class ServerPool:
    """The running servers, all with the same durability."""

    root: Path
    cpu: int
    durability: Durability | None = None
    _servers: dict[str, RunningServer] = field(default_factory=dict)
    _homes: int = 0

    def start(self, contender: Contender, durability: Durability) -> tuple[RunningServer, Path]:
        """Start a server on an empty directory, after the disk has written back everything; pauses all others."""
        self.pause_all()
        self._homes += 1
        home = self.root / f"{self._homes:03d}"
        home.mkdir(parents=True)
        os.sync()
        try:
            return contender.launcher.start(home, self.cpu, durability), home
        except BaseException:
            shutil.rmtree(home, ignore_errors=True)
            raise

    def choose(self, durability: Durability) -> None:
        """Use servers with this durability from now on; kills those with another."""
        if self.durability is not durability:
            self.close()
        self.durability = durability

    def take(self, contender: Contender) -> tuple[RunningServer, bool]:
        """Resume or start the contender's server and pause all others; returns whether it was started."""
        assert self.durability is not None, "call choose first"
        name = contender.launcher.name
        self.pause_all()
        server = self._servers.get(name)
        if server is not None and server.process.is_running:
            os.sync()
            server.process.resume()
            return server, False
        self.discard(name)
        self._servers[name], _ = self.start(contender, self.durability)
        return self._servers[name], True

    def pause_all(self) -> None:
        for server in self._servers.values():
            server.process.pause()

    def discard(self, name: str) -> None:
        """Kill a server; the next `take` starts a new one."""
        server = self._servers.pop(name, None)
        if server is not None:
            server.process.kill()

    def close(self) -> None:
        with ExitStack() as stack:
            for name in list(self._servers):
                stack.callback(self.discard, name)
        for home in self.root.iterdir() if self.root.exists() else ():
            shutil.rmtree(home, ignore_errors=True)
