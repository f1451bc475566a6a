"""The command line in the words of the seeds' documents: a broker from a config file, commands against it.

Never adds a flag that a document does not have; ports that would meet those of other tests are turned off by the
environment. With several brokers, the document's one is the first of a cluster, which it hears of by the environment.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from penstock.testing import Broker, CoordinatorServer
from several_brokers import NODES

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "penstock")
WAIT_S_MAX = 60.0
SESSION_MS = 6_000
DOORS = ("TEXT", "JSON", "QUEUE", "HTTP")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port: int = holder.getsockname()[1]
        return port


def environment(**more: str | None) -> dict[str, str]:
    """The environment of a command; None removes a variable."""
    shut = {f"PENSTOCK_{door}_PORT": "off" for door in DOORS}
    every = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1", **shut, **more}
    return {name: value for name, value in every.items() if value is not None}


class FromConfig:
    """`broker start --config FILE` as a process that can be killed and started again."""

    def __init__(
        self, config: Path, variables: Mapping[str, str | None], words: Sequence[str] | None = None
    ) -> None:
        self._words = [*COMMAND, *(words or ("start", "--config", config.name))]
        self._home = config.parent
        self._environment = environment(**variables)
        self.log = self._home / "broker.log"
        self.process: subprocess.Popen[bytes] | None = None
        self._config = config
        self._coordinator = CoordinatorServer(self._home / "coordinator", SESSION_MS)
        self._others: list[Broker] = []
        if NODES > 1:
            self._join()

    def _join(self) -> None:
        """Start the rest of the cluster, with the same config file, and make the document's broker its first."""
        self._coordinator.start()
        metadata = {"PENSTOCK_METADATA": self._coordinator.url, "PENSTOCK_NODE_ID": "1"}
        self._environment |= metadata
        shut = {f"{door.lower()}_port": "off" for door in DOORS}
        for number in range(2, NODES + 1):
            own = {"node_id": number, "metadata": self._coordinator.url, "config": self._config}
            other = Broker(self._home / f"broker-{number}", {**shut, **own})
            other.start()
            self._others.append(other)

    def start(self, port: int) -> None:
        """Returns once somebody listens on the port."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self._words, cwd=self._home, stdout=log, stderr=log, env=self._environment
            )
        deadline = time.monotonic() + WAIT_S_MAX
        while True:
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                return
            except OSError:
                time.sleep(0.01)

    def kill(self) -> None:
        """kill -9."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        self.process = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(WAIT_S_MAX)
        for other in self._others:
            other.close()
        self._coordinator.close()


def run(*words: str, **variables: str) -> str:
    """One command to its end; returns what it wrote."""
    ran = subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, env=environment(**variables), timeout=WAIT_S_MAX
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
