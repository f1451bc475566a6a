"""A server and its children on one CPU: start, await readiness, pause, memory, CPU time, end."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from penstock.apps.measuring.machine import TICKS_PER_S, on_cpu

READY_S_MAX = 120.0
STOP_S_MAX = 20.0
POLL_S = 0.002
LOG_TAIL_CHARS = 1500
PORTS = (12_000, 30_000)
"""Below those that the system hands to outgoing connections."""


class ServerFailed(Exception):
    """A runner did not start; the end of its output is in the message."""


class ServerProcess:
    """Started in a session of its own, so that all it starts can be found and ended with it."""

    def __init__(
        self, words: Sequence[str], home: Path, cpu: int, *, more: Mapping[str, str] | None = None
    ) -> None:
        self._log_path = home / "server.log"
        with self._log_path.open("ab") as log, on_cpu(cpu):
            self.started_ns = time.perf_counter_ns()
            self._process = subprocess.Popen(
                list(words),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=home,
                env={**os.environ, **(more or {})},
                start_new_session=True,
            )

    def await_ready(self, is_ready: Callable[[], bool]) -> None:
        """Return once it answers. Raises ServerFailed."""
        deadline = time.monotonic() + READY_S_MAX
        while not is_ready():
            if self._process.poll() is not None:
                raise ServerFailed(f"it left with code {self._process.returncode}\n{self.tail()}")
            if time.monotonic() > deadline:
                raise ServerFailed(f"it was not ready within {READY_S_MAX:.0f} s\n{self.tail()}")
            time.sleep(POLL_S)

    def tail(self) -> str:
        return self._log_path.read_text(errors="replace")[-LOG_TAIL_CHARS:]

    def resident_mb(self) -> float:
        """Memory of all processes of its session."""
        return sum(_resident_bytes(pid) for pid in _session_members(self._process.pid)) / 1e6

    def cpu_s(self) -> float:
        """CPU time of its process tree so far: user and system, with threads and children that have ended."""
        return sum(_cpu_ticks(pid) for pid in _session_members(self._process.pid)) / TICKS_PER_S

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def pause(self) -> None:
        """Stop all of it, so that an idle server takes nothing from the one that is measured."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def end(self) -> None:
        """SIGKILL to all of it: what it holds is thrown away."""
        self._signal(signal.SIGKILL)
        self._process.wait(STOP_S_MAX)

    def _signal(self, number: signal.Signals) -> None:
        for pid in _session_members(self._process.pid):
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                continue


def _session_members(session: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[3]) == session:
                found.append(int(entry.name))
    return found


def _resident_bytes(pid: int) -> int:
    try:
        pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    except OSError:
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE")


def _cpu_ticks(pid: int) -> int:
    """utime, stime, cutime and cstime of /proc/PID/stat."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0
    return sum(int(field) for field in fields[11:15])


def free_port() -> int:
    """One that nobody listens on, and that no outgoing connection takes before the server does."""
    while True:
        port = random.randrange(*PORTS)
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
