"""A process that runs, as its supervisor sees it: a child, or a process that another parent started.

Only the parent of a process learns its exit code. The end of any other process of this machine is seen with a file
descriptor of it (pidfd), which also makes sure that a signal never reaches another process with the same id.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from asyncio.subprocess import Process
from contextlib import suppress
from pathlib import Path
from typing import Protocol

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_START_FIELD = 19
"""Start time in /proc/<pid>/stat, counted from the field after the program's name."""


class ProcessHandle(Protocol):
    """What a supervisor needs of a process."""

    @property
    def pid(self) -> int: ...

    @property
    def is_running(self) -> bool: ...

    async def wait(self) -> int | None:
        """Wait for its end; returns the exit code, None if it cannot be known."""

    def send_signal(self, number: signal.Signals) -> None:
        """Does nothing if the process has ended."""


class SpawnedProcess:
    """A child of this process. `wait` for it once it has been told to end.

    Signals go to a descriptor of it: `Process.send_signal` would first ask whether the child has exited, and would then
    take its exit code away from `wait`.
    """

    def __init__(self, process: Process) -> None:
        self._process = process
        try:
            self._fd = os.pidfd_open(process.pid)
        except ProcessLookupError:  # it exited at once
            self._fd = -1

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.returncode is None

    async def wait(self) -> int | None:
        code = await self._process.wait()
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
        return code

    def send_signal(self, number: signal.Signals) -> None:
        _send_signal(self._fd, number)


class AdoptedProcess:
    """A process of another parent. Needs a running loop; `close` when it is not watched any more."""

    def __init__(self, pid: int) -> None:
        """Raises ProcessLookupError if there is no such process."""
        self.pid = pid
        self._fd = os.pidfd_open(pid)
        self._loop = asyncio.get_running_loop()
        self._ended: asyncio.Future[None] = self._loop.create_future()
        self._loop.add_reader(self._fd, self._end)

    def _end(self) -> None:
        """The descriptor becomes readable when the process ends."""
        self.close()
        if not self._ended.done():
            self._ended.set_result(None)

    @property
    def is_running(self) -> bool:
        return not self._ended.done()

    async def wait(self) -> int | None:
        await asyncio.shield(self._ended)
        return None

    def send_signal(self, number: signal.Signals) -> None:
        _send_signal(self._fd, number)

    def close(self) -> None:
        """Stop watching; the process runs on. Safe to call again."""
        if self._fd >= 0:
            self._loop.remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1


def _send_signal(fd: int, number: signal.Signals) -> None:
    if fd >= 0:
        with suppress(ProcessLookupError):  # it has just exited
            signal.pidfd_send_signal(fd, number)


def boot_time_s() -> float:
    """The clock that start times of processes are in."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def start_time_s(pid: int) -> float:
    """When a process was started, on the clock of `boot_time_s`. Raises OSError if there is no such process."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return int(stat.rpartition(")")[2].split()[_START_FIELD]) / _TICKS_PER_S
