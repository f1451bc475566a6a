"""A server process and its children, pinned to CPUs: start, readiness, pause, CPU time, memory, end."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penstock.apps.bench.harness.machine import TICKS_PER_S, on_cpu

READY_S_MAX = 120.0
STOP_S_MAX = 60.0
POLL_S = 0.002
LOG_TAIL_CHARS = 2000
CLEAN_EXITS = (0, 128 + signal.SIGTERM)
"""Exit codes after SIGTERM. A JVM that has run its shutdown hooks ends with the second one."""
PORTS = (12_000, 30_000)
"""Below the range from which the system takes ports for outgoing connections."""

_CPU_OF_PROCESS = 2
"""The low bits of the identifier of another process's CPU clock, see clock_getcpuclockid(3)."""


class ServerFailed(Exception):
    """A server did not start or did not stop; the message contains the end of its output."""


@dataclass(slots=True)
class CpuTime:
    """CPU time of a server within a block; set when the block ends."""

    cpu_s: float = 0.0


class ServerProcess:
    """Runs in its own session, so that its child processes can be found, measured and killed with it."""

    def __init__(
        self,
        command: Sequence[str],
        home: Path,
        *cpus: int,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._log_path = home / "server.log"
        with self._log_path.open("ab") as log, on_cpu(*cpus):
            self.started_ns = time.perf_counter_ns()
            self._process = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=home,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    def await_ready(self, is_ready: Callable[[], bool], poll_s: float = POLL_S) -> None:
        """Return once `is_ready` is true. Raises ServerFailed."""
        deadline = time.monotonic() + READY_S_MAX
        while not is_ready():
            if self._process.poll() is not None:
                raise ServerFailed(f"exited with code {self._process.returncode}\n{self.log_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ServerFailed(f"not ready within {READY_S_MAX:.0f} s\n{self.log_tail()}")
            time.sleep(poll_s)

    def log_tail(self) -> str:
        return self._log_path.read_text(errors="replace")[-LOG_TAIL_CHARS:]

    def has_logged(self, text: str) -> bool:
        """Whether its output contains this text, however much came after it."""
        return text in self._log_path.read_text(errors="replace")

    def resident_mb(self) -> float:
        """Resident memory of all processes of its session."""
        return sum(resident_bytes(pid) for pid in _session_members(self._process.pid)) / 1e6

    def cpu_s(self) -> float:
        """CPU time of its process tree so far: user and system, including threads and children that have exited."""
        return sum(_cpu_ticks(pid) for pid in _session_members(self._process.pid)) / TICKS_PER_S

    @contextmanager
    def cpu_time(self) -> Iterator[CpuTime]:
        """CPU time of its process tree within the block."""
        spent, before_s = CpuTime(), self.cpu_s()
        yield spent
        spent.cpu_s = self.cpu_s() - before_s

    @property
    def pid(self) -> int:
        return self._process.pid

    def open_files(self) -> int:
        """Open file descriptors of the process itself."""
        return len(list(Path(f"/proc/{self._process.pid}/fd").iterdir()))

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def pause(self) -> None:
        """Stop all its processes with SIGSTOP, so that an idle server takes no CPU time from the measured one."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def stop(self) -> None:
        """Send SIGTERM and wait for a clean exit. Raises ServerFailed."""
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.kill()
            raise ServerFailed(f"did not stop within {STOP_S_MAX:.0f} s\n{self.log_tail()}") from None
        if self._process.returncode not in CLEAN_EXITS:
            raise ServerFailed(f"stopped with code {self._process.returncode}\n{self.log_tail()}")

    def kill(self) -> None:
        """Send SIGKILL to all its processes and wait."""
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


def resident_bytes(pid: int) -> int:
    """Resident memory of one process; 0 if it has exited."""
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


def cpu_clock_s(pid: int) -> float:
    """CPU time of one running process and its threads, finer than the ticks of /proc/PID/stat. Linux only."""
    return time.clock_gettime(~pid << 3 | _CPU_OF_PROCESS)


def free_port() -> int:
    """A port without a listener, and outside the range that outgoing connections could take before the server does."""
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
