"""Penstock as a runner: this tree, with its defaults. Never tuned for a row."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from penstock.apps.race.servers.process import ServerProcess
from penstock.apps.race.servers.runner import Promise, Running
from penstock.core.version import __version__

DOORS = {"main": "port", "queue": "queue_port"}


class Penstock:
    name = "Penstock"

    @property
    def settings(self) -> dict[str, str]:
        return {
            "--durability os": "acknowledged once the system has it, as the others' defaults do",
            "--durability fsync": "row 3: flushed before it is acknowledged; its default",
            "--text-port off --json-port off --http-port off": "no row uses them",
        }

    def prepare(self) -> str:
        return __version__

    def start(self, home: Path, cpu: int, promise: Promise) -> Running:
        ready = home / "ready.json"
        words = [
            sys.executable,
            "-m",
            "penstock",
            "start",
            "--data-dir",
            str(home / "data"),
            "--durability",
            promise,
        ]
        words += ["--ready-file", str(ready), "--port", "0", "--queue-port", "0"]
        words += ["--text-port", "off", "--json-port", "off", "--http-port", "off"]
        process = ServerProcess(words, home, cpu)
        process.await_ready(lambda: ready.exists() and ready.read_text().rstrip().endswith("}"))
        told = json.loads(ready.read_text())
        return Running(process, {door: int(told[key]) for door, key in DOORS.items() if key in told})
