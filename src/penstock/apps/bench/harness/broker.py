"""A Penstock broker as a pinned server process, started from its command line and observed from outside."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from penstock.apps.bench.harness.link import Address
from penstock.apps.bench.harness.process import ServerProcess

READY_POLL_S = 0.0005
"""Start-up takes some hundred milliseconds and is itself measured."""
FREE_PORTS = dict.fromkeys(("port", "text_port", "json_port", "queue_port", "http_port"), 0)


class BrokerProcess:
    """One broker on one data directory; may be started again after `stop` or `kill`.

    `flags` have `_` in place of `-`. `python` is the interpreter of the environment with the measured version.
    """

    def __init__(
        self, home: Path, cpu: int, flags: Mapping[str, str | int], *, python: str = sys.executable
    ) -> None:
        self.home = home
        self.data_dir = home / "data"
        self._cpu = cpu
        self._python = python
        self._flags = flags
        self._ready_path = home / "ready.json"
        self._process: ServerProcess | None = None
        self.address: Address = ("127.0.0.1", 0)
        self.ports: dict[str, int] = {}
        """The port of each open door, by its flag."""
        home.mkdir(parents=True, exist_ok=True)

    @property
    def bootstrap(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    @property
    def process(self) -> ServerProcess:
        assert self._process is not None, "the broker is not running"
        return self._process

    def start(self) -> float:
        """Start and wait until ready; returns the milliseconds from exec to ready. Raises ServerFailed."""
        assert self._process is None, "the broker is already running"
        self._ready_path.unlink(missing_ok=True)
        command = [self._python, "-m", "penstock", "start", "--data-dir", str(self.data_dir)]
        command += ["--ready-file", str(self._ready_path)]
        for name, value in {**FREE_PORTS, **self._flags}.items():
            command += ["--" + name.replace("_", "-"), str(value)]
        self._process = ServerProcess(command, self.home, self._cpu)
        self._process.await_ready(self._ready_path.exists, READY_POLL_S)
        ready_ms = (time.perf_counter_ns() - self._process.started_ns) / 1e6
        ready = json.loads(self._ready_path.read_text())
        self.address = (str(ready["host"]), int(ready["port"]))
        self.ports = {name: int(ready[name]) for name in FREE_PORTS if name in ready}
        return ready_ms

    def stop(self) -> None:
        """Stop cleanly. Raises ServerFailed."""
        process, self._process = self.process, None
        process.stop()

    def kill(self) -> None:
        """kill -9."""
        process, self._process = self.process, None
        process.kill()

    def close(self) -> None:
        """Kill the broker if it is running."""
        if self._process is not None:
            self.kill()
