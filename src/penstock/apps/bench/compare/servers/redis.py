"""Redis with its append-only file and without snapshots."""

from __future__ import annotations

import subprocess
from pathlib import Path

from penstock.apps.bench.compare.servers.install import from_debian
from penstock.apps.bench.compare.servers.launcher import RunningServer
from penstock.apps.bench.harness.process import ServerProcess, free_port, is_listening
from penstock.core.model import Durability

SYNC = {Durability.OS: "everysec", Durability.FSYNC: "always"}
"""`everysec` is what its documentation recommends; `always` flushes before the reply."""


class Redis:
    name = "Redis"

    @property
    def settings(self) -> dict[str, str]:
        return {
            "appendonly yes, appendfsync everysec": "the append-only file as its documentation recommends",
            "appendfsync always": "row 3: flushed before the acknowledgement",
            "auto-aof-rewrite-percentage 0": "no rewrite during a run",
            'save ""': "no snapshots in addition to the append-only file",
        }

    def prepare(self) -> str:
        output = subprocess.run(
            [self._program(), "--version"], check=True, capture_output=True, text=True
        ).stdout
        return output.partition("v=")[2].split()[0]

    def _program(self) -> str:
        return from_debian("redis-server", "redis-server")

    def start(self, home: Path, cpu: int, durability: Durability) -> RunningServer:
        port = free_port()
        command = [
            self._program(),
            "--bind",
            "127.0.0.1",
            "--port",
            str(port),
            "--dir",
            str(home),
            "--save",
            "",
        ]
        command += [
            "--appendonly",
            "yes",
            "--appendfsync",
            SYNC[durability],
            "--auto-aof-rewrite-percentage",
            "0",
        ]
        process = ServerProcess(command, home, cpu)
        process.await_ready(lambda: is_listening(port))
        return RunningServer(process, {"main": port})
