"""Redis as a runner, with its append-only file. Never with snapshots beside it."""

from __future__ import annotations

import subprocess
from pathlib import Path

from penstock.apps.race.servers.installing import from_debian
from penstock.apps.race.servers.process import ServerProcess, free_port, is_listening
from penstock.apps.race.servers.runner import Promise, Running

SYNC = {Promise.OS: "everysec", Promise.FSYNC: "always"}
"""`everysec` is its own advice for a log; `always` flushes before it answers."""


class Redis:
    name = "Redis"

    @property
    def settings(self) -> dict[str, str]:
        return {
            "appendonly yes, appendfsync everysec": "the append-only file as its documentation suggests",
            "appendfsync always": "row 3: flushed before it is acknowledged",
            "auto-aof-rewrite-percentage 0": "no rewrite in the middle of a lap",
            'save ""': "no snapshots beside the append-only file",
        }

    def prepare(self) -> str:
        told = subprocess.run(
            [self._program(), "--version"], check=True, capture_output=True, text=True
        ).stdout
        return told.partition("v=")[2].split()[0]

    def _program(self) -> str:
        return from_debian("redis-server", "redis-server")

    def start(self, home: Path, cpu: int, promise: Promise) -> Running:
        port = free_port()
        words = [
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
        words += ["--appendonly", "yes", "--appendfsync", SYNC[promise], "--auto-aof-rewrite-percentage", "0"]
        process = ServerProcess(words, home, cpu)
        process.await_ready(lambda: is_listening(port))
        return Running(process, {"main": port})
