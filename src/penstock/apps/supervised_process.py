"""A child process that is restarted with back-off when it exits, and stopped cleanly with its parent.

The child dies with its parent even if that is killed, so that no orphan holds a port or a data directory.
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

RESTART_S = 0.5
RESTART_S_MAX = 30.0
"""Delay before a restart; doubles with every exit up to the maximum."""
STEADY_S = 60.0
"""A child that ran this long starts with the shortest delay again."""
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
    the output into a remedy, if it knows one. `is_final` says whether an exit with this code ends the supervision. With
    `core`, the child runs on that CPU core only.
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
        self._process: Process | None = None
        self._supervision: asyncio.Task[None] | None = None
        self.start_count = 0
        self.final_code: int | None = None
        """The exit code that ended the supervision."""

    @property
    def pid(self) -> int | None:
        """The process id while the child is running."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    async def start(self) -> None:
        """Start the child, and supervise it from then on. Raises OSError if it cannot be started."""
        assert self._supervision is None, "already started"
        process = await self._spawn()
        self._supervision = asyncio.get_running_loop().create_task(self._supervise(process))

    async def wait(self) -> None:
        """Wait until the child that runs now has exited."""
        if self._process is not None:
            await self._process.wait()

    async def stop(self, *, at_once: bool = False) -> int:
        """Stop supervising, then the child: SIGTERM, and SIGKILL if it does not exit in time or has to stop at once.
        Returns its exit code, 0 if it was not running."""
        supervision, self._supervision = self._supervision, None
        if supervision is not None:
            supervision.cancel()
            await asyncio.gather(supervision, return_exceptions=True)
        process = self._process
        if process is None or process.returncode is not None:
            return 0
        if at_once:
            return await _kill(process)
        _signal(process, signal.SIGTERM)
        limit_s = STOP_S_MAX if self._stop_s_max is None else self._stop_s_max
        try:
            async with asyncio.timeout(limit_s):
                return await process.wait()
        except TimeoutError:
            logger.warning("%s ignored SIGTERM for %.0f s and is killed", self.name, limit_s)
            return await _kill(process)

    def tail(self) -> str:
        """The end of the output; empty if it does not go to a file."""
        if self._output is None:
            return ""
        with self._output.open("rb") as output:
            output.seek(max(0, self._output.stat().st_size - TAIL_BYTES))
            return output.read().decode(errors="replace")

    async def _supervise(self, process: Process) -> None:
        now, delay_s = asyncio.get_running_loop().time, RESTART_S
        while True:
            started_at = now()
            code = await self._exit(process)
            if self._is_final(code):
                self.final_code = code
                return
            if now() - started_at >= STEADY_S:
                delay_s = RESTART_S
            self._report(code, delay_s)
            process, delay_s = await self._restart(delay_s)

    async def _exit(self, process: Process) -> int:
        """The exit code. Until then the output file is kept small."""
        while True:
            try:
                async with asyncio.timeout(OUTPUT_CHECK_S):
                    return await process.wait()
            except TimeoutError:
                self._trim_output()

    def _report(self, code: int, delay_s: float) -> None:
        tail = self.tail()
        output = ""
        if self._output is not None:
            last_line = tail.rstrip().rpartition("\n")[2] or "none"
            output = f" {self._explain(tail)}Last output ({self._output}): {last_line}"
        logger.error(
            "%s exited with %s, restarting in %.1f s.%s", self.name, describe_exit(code), delay_s, output
        )

    async def _restart(self, delay_s: float) -> tuple[Process, float]:
        """The new child, and the delay before the next restart."""
        while True:
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, RESTART_S_MAX)
            try:
                return await self._spawn(), delay_s
            except OSError as error:
                logger.error(
                    "cannot start %s, retrying in %.1f s: %s", self.name, delay_s, error.strerror or error
                )

    async def _spawn(self) -> Process:
        command = [*self._command, *self._prepare()]
        if self._output is None:
            process = await self._execute(command, DEVNULL, None)
        else:
            self._trim_output()
            with self._output.open("ab") as output:
                process = await self._execute(command, output.fileno(), output.fileno())
        self._process = process
        self.start_count += 1
        logger.info("%s started", self.name, extra={"pid": process.pid})
        return process

    async def _execute(self, command: Sequence[str], stdout: int, stderr: int | None) -> Process:
        return await asyncio.create_subprocess_exec(
            *command,
            stdin=DEVNULL,
            stdout=stdout,
            stderr=stderr,
            env=None if self._environment is None else dict(self._environment),
            # Ctrl-C reaches the whole foreground group: the parent decides when its children stop.
            start_new_session=True,
            preexec_fn=_before_exec(self._core),
        )

    def _trim_output(self) -> None:
        """Start the file again if it is too large. The child appends to it and need not know; what it writes between
        the two steps is lost."""
        output = self._output
        if output is not None and output.exists() and output.stat().st_size > OUTPUT_BYTES_MAX:
            with suppress(OSError):  # a full disk: the next check tries again
                shutil.copyfile(output, output.with_suffix(".old"))
                os.truncate(output, 0)


def describe_exit(code: int) -> str:
    """`code 1`, or the signal that ended the process: `SIGKILL`."""
    if code >= 0:
        return f"code {code}"
    return signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"


def _signal(process: Process, number: signal.Signals) -> None:
    with suppress(ProcessLookupError):  # it has just exited
        process.send_signal(number)


async def _kill(process: Process) -> int:
    _signal(process, signal.SIGKILL)
    return await process.wait()


def _before_exec(core: int | None) -> Callable[[], None] | None:
    """Runs in the child before the program: the kernel sends SIGTERM when the parent dies. Linux only."""
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def arrange() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent died before the call
            os.kill(os.getpid(), signal.SIGKILL)
        if core is not None:
            os.sched_setaffinity(0, {core})

    return arrange
