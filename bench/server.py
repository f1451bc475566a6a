"""The broker under measurement, as a child process pinned to its CPU: start, stop, kill, and what /proc says of it.

Never looks inside the broker.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penstock.apps.measuring.machine import TICKS_PER_S, on_cpu

READY_S_MAX = 120.0
STOP_S_MAX = 60.0
POLL_S = 0.0005
LOG_TAIL_CHARS = 2000
FREE_PORTS = dict.fromkeys(("port", "text_port", "json_port", "queue_port", "http_port"), 0)


class BrokerFailed(Exception):
    """The broker did not start or did not stop; the end of its output is in the message."""


class Server:
    """One broker on one data directory; may be started again after it was stopped or killed."""

    def __init__(self, home: Path, cpu: int, **flags: str | int) -> None:
        self.home = home
        self.data_dir = home / "data"
        self._cpu = cpu
        self._flags = flags
        self._ready_path = home / "ready.json"
        self._log_path = home / "broker.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.address = ("127.0.0.1", 0)
        self.ports: dict[str, int] = {}
        self.doors: dict[str, int] = {}
        """The port of each door by its flag."""
        self.started_ns = 0
        home.mkdir(parents=True, exist_ok=True)

    @property
    def bootstrap(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the broker is not running"
        return self._process.pid

    def start(self) -> float:
        """Start and wait until the ready file is there; returns the milliseconds from exec to then."""
        assert self._process is None, "the broker already runs"
        self._ready_path.unlink(missing_ok=True)
        words = [sys.executable, "-m", "penstock", "start", "--data-dir", str(self.data_dir)]
        words += ["--ready-file", str(self._ready_path)]
        for name, value in {**FREE_PORTS, **self._flags}.items():
            words += ["--" + name.replace("_", "-"), str(value)]
        with self._log_path.open("ab") as log, on_cpu(self._cpu):
            self.started_ns = time.perf_counter_ns()
            self._process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._await_ready(self._process)
        return (time.perf_counter_ns() - self.started_ns) / 1e6

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + READY_S_MAX
        while not self._ready_path.exists():
            if process.poll() is not None:
                self._process = None
                raise BrokerFailed(f"the broker left with code {process.returncode}\n{self._tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise BrokerFailed(f"the broker was not ready within {READY_S_MAX:.0f} s\n{self._tail()}")
            time.sleep(POLL_S)
        ready = json.loads(self._ready_path.read_text())
        self.address = (str(ready["host"]), int(ready["port"]))
        self.ports = {name: int(ready[name]) for name in FREE_PORTS if name in ready}
        self.doors = {name: int(ready[name]) for name in FREE_PORTS if name in ready}

    def stop(self) -> None:
        """SIGTERM, and wait for a clean end."""
        process = self._end(signal.SIGTERM)
        if process.returncode:
            raise BrokerFailed(f"the broker stopped with code {process.returncode}\n{self._tail()}")

    def kill(self) -> None:
        """kill -9."""
        self._end(signal.SIGKILL)

    def _end(self, number: signal.Signals) -> subprocess.Popen[bytes]:
        process, self._process = self._process, None
        assert process is not None, "the broker is not running"
        process.send_signal(number)
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerFailed(f"the broker ignored {number.name}\n{self._tail()}") from None
        return process

    def close(self) -> None:
        """End whatever still runs."""
        if self._process is not None:
            self.kill()

    def _tail(self) -> str:
        return self._log_path.read_text(errors="replace")[-LOG_TAIL_CHARS:]

    # -- what the kernel says

    def cpu_s(self) -> float:
        """Processor time of all its threads so far, user and system."""
        fields = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS_PER_S

    def resident_mb(self) -> float:
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024 / 1e6
        raise BrokerFailed("the kernel does not say how much memory the broker holds")

    def open_files(self) -> int:
        return len(os.listdir(f"/proc/{self.pid}/fd"))


@contextmanager
def running(home: Path, cpu: int, **flags: str | int) -> Iterator[Server]:
    """A ready broker, killed at the end: what it leaves behind is thrown away."""
    server = Server(home, cpu, **flags)
    server.start()
    try:
        yield server
    finally:
        server.close()
