"""The command line in the words of the seeds' documents: a broker from a config file, commands against it.

Never adds a flag that a document does not have; ports that would meet those of other tests are turned off by the
environment.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
COMMAND = (sys.executable, "-m", "penstock")
WAIT_S_MAX = 60.0
DOORS = ("TEXT", "JSON", "QUEUE", "HTTP")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as holder:
        port: int = holder.getsockname()[1]
        return port


def environment(**more: str) -> dict[str, str]:
    shut = {f"PENSTOCK_{door}_PORT": "off" for door in DOORS}
    return {**os.environ, "PYTHONPATH": str(ROOT / "src"), **shut, **more}


class FromConfig:
    """`broker start --config FILE` as a process that can be killed and started again."""

    def __init__(self, config: Path, variables: Mapping[str, str]) -> None:
        self._words = [*COMMAND, "start", "--config", config.name]
        self._home = config.parent
        self._environment = environment(**variables)
        self.log = self._home / "broker.log"
        self.process: subprocess.Popen[bytes] | None = None

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


def run(*words: str, **variables: str) -> str:
    """One command to its end; returns what it wrote."""
    ran = subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, env=environment(**variables), timeout=WAIT_S_MAX
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran.stdout
