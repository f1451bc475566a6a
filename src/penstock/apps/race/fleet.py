"""Servers that stay up over the laps of many rows, so that they are warm. One runs at a time; the others are paused.

A server whose lap failed is ended: the next lap gets a new one, which is warmed again.
"""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from penstock.apps.race.entrants import Entrant
from penstock.apps.race.servers.runner import Promise, Running


@dataclass(slots=True)
class Fleet:
    """The running servers of one durability class."""

    root: Path
    cpu: int
    promise: Promise | None = None
    _servers: dict[str, Running] = field(default_factory=dict)
    _homes: int = 0

    def start(self, entrant: Entrant, promise: Promise) -> tuple[Running, Path]:
        """A new server on an empty directory, and on a disk that has nothing left to write; all others are paused."""
        self.pause_all()
        self._homes += 1
        home = self.root / f"{self._homes:03d}"
        home.mkdir(parents=True)
        os.sync()
        try:
            return entrant.runner.start(home, self.cpu, promise), home
        except BaseException:
            shutil.rmtree(home, ignore_errors=True)
            raise

    def choose(self, promise: Promise) -> None:
        """Servers with this durability are wanted from now on; those with another are ended."""
        if self.promise is not promise:
            self.close()
        self.promise = promise

    def take(self, entrant: Entrant) -> tuple[Running, bool]:
        """The one server that runs now, and whether it was started by this call."""
        assert self.promise is not None, "choose comes first"
        name = entrant.runner.name
        self.pause_all()
        server = self._servers.get(name)
        if server is not None and server.process.is_running:
            os.sync()
            server.process.resume()
            return server, False
        self.discard(name)
        self._servers[name], _ = self.start(entrant, self.promise)
        return self._servers[name], True

    def pause_all(self) -> None:
        for server in self._servers.values():
            server.process.pause()

    def discard(self, name: str) -> None:
        """End a server; the next `take` starts another."""
        server = self._servers.pop(name, None)
        if server is not None:
            server.process.end()

    def close(self) -> None:
        with ExitStack() as stack:
            for name in list(self._servers):
                stack.callback(self.discard, name)
        for home in self.root.iterdir():
            shutil.rmtree(home, ignore_errors=True)
