"""Penstock with its defaults: this version, or another one as a baseline. Not tuned for any row."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from penstock.apps.bench.compare.servers.install import CannotInstall
from penstock.apps.bench.compare.servers.launcher import RunningServer
from penstock.apps.bench.harness.broker import BrokerProcess
from penstock.core.model import Durability

VERSION = "import penstock; print(penstock.__version__)"
UNUSED_DOORS = {"text_port": "off", "json_port": "off", "http_port": "off"}


@dataclass(frozen=True, slots=True)
class Penstock:
    """`python` is the interpreter of the environment that the measured version is installed in."""

    name: str = "Penstock"
    python: str = sys.executable

    @property
    def settings(self) -> dict[str, str]:
        return {
            "--durability os": "acknowledged once the operating system has the record, like the defaults of the others",
            "--durability fsync": "row 3: flushed before the acknowledgement; its default",
            "--text-port off --json-port off --http-port off": "no row uses them",
        }

    def prepare(self) -> str:
        try:
            output = subprocess.run([self.python, "-c", VERSION], check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as error:
            raise CannotInstall(f"{self.python} cannot import penstock: {error}") from error
        return output.stdout.strip()

    def start(self, home: Path, cpu: int, durability: Durability) -> RunningServer:
        broker = BrokerProcess(
            home, cpu, {"durability": durability.value, **UNUSED_DOORS}, python=self.python
        )
        broker.start()
        return RunningServer(
            broker.process, {"main": broker.ports["port"], "queue": broker.ports["queue_port"]}
        )
