"""A process that is restarted with back-off when it exits, and stopped cleanly with its parent.

Unless it `outlives` its parent, the child dies with it even if that is killed, so that no orphan holds a port or a data
directory. A process that outlived its parent can be adopted by the next one.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import shutil
import signal
import sys
from asyncio.subprocess import DEVNULL, Process
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from penstock.apps.process_handle import ProcessHandle, SpawnedProcess, boot_time_s, start_time_s
from penstock.apps.restart_backoff import RestartBackoff

RESTART_S = 0.5
RESTART_S_MAX = 30.0
"""Delay before a restart; doubles with every exit up to the maximum."""
STOP_S_MAX = 10.0
"""Time for a clean exit after SIGTERM; then SIGKILL."""
OUTPUT_BYTES_MAX = 4 << 20
OUTPUT_CHECK_S = 30.0
"""How often the size of the output file is checked; a larger file becomes the `.old` one."""
TAIL_BYTES = 2_000

_PR_SET_PDEATHSIG = 1

logger = logging.getLogger("penstock.supervisor")


class SupervisedProcess:
    """One child. `output` is the file for what it prints; None: its errors go where those of the parent go.

    `prepare` runs before every start and returns arguments that may differ between starts. `explain` turns the end of
    the output into a remedy, if it knows one. `is_final` says whether an exit with this code ends the supervision, and
    `exits_max` how many exits within a minute do. With `core`, the child runs on that CPU core only.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        output: Path | None,
        *,
        environment: Mapping[str, str] | None = None,
        prepare: Callable[[], Sequence[str]] = tuple,
        explain: Callable[[str], str] = lambda _: "",
        is_final: Callable[[int], bool] = lambda _: False,
        core: int | None = None,
        stop_s_max: float | None = None,
        exits_max: int | None = None,
        outlives: bool = False,
    ) -> None:
        self.name = name
        self._command = list(command)
        self._output = output
        self._environment = environment
        self._prepare = prepare
        self._explain = explain
        self._is_final = is_final
        self._core = core
        self._stop_s_max = stop_s_max
        self._exits_max = exits_max
        self._outlives = outlives
        self._process: ProcessHandle | None = None
        self._supervision: asyncio.Task[None] | None = None
        self._started_s = 0.0
        self.start_count = 0
        self.restart_count = 0
        """Starts after an exit that nobody asked for."""
        self.final_code: int | None = None
        """The exit code that ended the supervision."""
        self.is_given_up = False
        """Whether too many exits ended the supervision."""
        self.last_exit = ""
        """How the last child that was not told to stop has ended."""

    @property
    def pid(self) -> int | None:
        """The process id while the child is running."""
        process = self._process
        return process.pid if process is not None and process.is_running else None

    @property
    def uptime_s(self) -> float | None:
        """How long the child has been running; None if it is not."""
        return None if self.pid is None else max(0.0, boot_time_s() - self._started_s)

    async def start(self) -> None:
        """Start the child, and supervise it from then on. Raises OSError if it cannot be started."""
        assert self._supervision is None, "already started"
        self.final_code, self.is_given_up = None, False
        self._supervise(await self._spawn())

    def adopt(self, process: ProcessHandle) -> None:
        """Supervise a process that runs already. Raises OSError if it has just ended."""
        assert self._supervision is None, "already started"
        self.final_code, self.is_given_up = None, False
        self._started_s = start_time_s(process.pid)
        self._process = process
        self._supervise(process)

    async def release(self) -> ProcessHandle | None:
        """Stop supervising and let the process run on; returns it."""
        supervision, self._supervision = self._supervision, None
        if supervision is not None:
            supervision.cancel()
            await asyncio.gather(supervision, return_exceptions=True)
        return self._process

    async def wait(self) -> None:
        """Wait until the child that runs now has exited."""
        if self._process is not None:
            await self._process.wait()

    def kill(self) -> None:
        """SIGKILL; it is restarted as after any other exit."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)

    async def stop(self, *, at_once: bool = False) -> int:
        """Stop supervising, then the child: SIGTERM, and SIGKILL if it does not exit in time or has to stop at once.
        Returns its exit code; 0 if it was not running, or its code cannot be known and it exited in time."""
        process = await self.release()
        if process is None or not process.is_running:
            return 0
        if at_once:
            return await _kill(process)
        process.send_signal(signal.SIGTERM)
        limit_s = STOP_S_MAX if self._stop_s_max is None else self._stop_s_max
        try:
            async with asyncio.timeout(limit_s):
                return await process.wait() or 0
        except TimeoutError:
            logger.warning("%s ignored SIGTERM for %.0f s and is killed", self.name, limit_s)
            return await _kill(process)

    def tail(self) -> str:
        """The end of the output; empty if there is none in a file."""
        if self._output is None or not self._output.exists():
            return ""
        with self._output.open("rb") as output:
            output.seek(max(0, self._output.stat().st_size - TAIL_BYTES))
            return output.read().decode(errors="replace")

    def _supervise(self, process: ProcessHandle) -> None:
        self._supervision = asyncio.get_running_loop().create_task(self._restart_forever(process))

    async def _restart_forever(self, process: ProcessHandle) -> None:
        now, policy = (
            asyncio.get_running_loop().time,
            RestartBackoff(RESTART_S, RESTART_S_MAX, self._exits_max),
        )
        while True:
            started_at = now()
            code = await self._exit(process)
            self.last_exit = f"exited with {describe_exit(code)}"
            if code is not None and self._is_final(code):
                self.final_code = code
                return
            delay_s = policy.after_exit(now(), now() - started_at)
            if delay_s is None:
                self.is_given_up = True
                self._report(f"{self._exits_max} exits within a minute: not restarting it")
                return
            self._report(f"restarting in {delay_s:.1f} s")
            process = await self._restart(delay_s, policy)

    async def _exit(self, process: ProcessHandle) -> int | None:
        """The exit code. Until then the output file is kept small."""
        while True:
            try:
                async with asyncio.timeout(OUTPUT_CHECK_S):
                    return await process.wait()
            except TimeoutError:
                self._trim_output()

    def _report(self, what_next: str) -> None:
        tail = self.tail()
        output = ""
        if self._output is not None:
            last_line = tail.rstrip().rpartition("\n")[2] or "none"
            output = f" {self._explain(tail)}Last output ({self._output}): {last_line}"
        logger.error("%s %s, %s.%s", self.name, self.last_exit, what_next, output)

    async def _restart(self, delay_s: float, policy: RestartBackoff) -> ProcessHandle:
        while True:
            await asyncio.sleep(delay_s)
            try:
                process = await self._spawn()
            except OSError as error:
                delay_s = policy.next_delay_s()
                logger.error(
                    "cannot start %s, retrying in %.1f s: %s", self.name, delay_s, error.strerror or error
                )
            else:
                self.restart_count += 1
                return process

    async def _spawn(self) -> ProcessHandle:
        command = [*self._command, *self._prepare()]
        if self._output is None:
            process = await self._execute(command, DEVNULL, None)
        else:
            self._trim_output()
            with self._output.open("ab") as output:
                process = await self._execute(command, output.fileno(), output.fileno())
        self._started_s = boot_time_s()
        self._process = spawned = SpawnedProcess(process)
        self.start_count += 1
        logger.info("%s started", self.name, extra={"pid": process.pid})
        return spawned

    async def _execute(self, command: Sequence[str], stdout: int, stderr: int | None) -> Process:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=None if self._environment is None else dict(self._environment),
            # Ctrl-C reaches the whole foreground group: the parent decides when its children stop.
            start_new_session=True,
            preexec_fn=_before_exec(self._core, self._outlives),
        )

    def _trim_output(self) -> None:
        """Start the file again if it is too large. The child appends to it and need not know; what it writes between
        the two steps is lost."""
        output = self._output
        if output is not None and output.exists() and output.stat().st_size > OUTPUT_BYTES_MAX:
            with suppress(OSError):  # a full disk: the next check tries again
                shutil.copyfile(output, output.with_suffix(".old"))
                os.truncate(output, 0)


def describe_exit(code: int | None) -> str:
    """`code 1`, or the signal that ended the process: `SIGKILL`."""
    if code is None:
        return "an unknown code"
    if code >= 0:
        return f"code {code}"
    return signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"


async def _kill(process: ProcessHandle) -> int:
    process.send_signal(signal.SIGKILL)
    code = await process.wait()
    return -signal.SIGKILL if code is None else code


def _before_exec(core: int | None, outlives: bool) -> Callable[[], None] | None:
    """Runs in the child before the program: the kernel sends SIGTERM when the parent dies. Linux only."""
    if sys.platform != "linux" or (outlives and core is None):
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def arrange() -> None:
        if not outlives:
            prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
            if os.getppid() != parent:  # the parent died before the call
                os.kill(os.getpid(), signal.SIGKILL)
        if core is not None:
            os.sched_setaffinity(0, {core})

    return arrange
