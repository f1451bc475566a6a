"""A child process that is restarted with back-off when it exits, and stopped cleanly with its parent.

The child dies with its parent even if that is killed, so that no orphan holds a port or a data directory.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

RESTART_S = 0.5
RESTART_S_MAX = 30.0
"""Delay before a restart; doubles with every exit up to the maximum."""
STEADY_S = 60.0
"""A child that ran this long starts with the shortest delay again."""
STOP_S_MAX = 10.0
"""Time for a clean exit after SIGTERM; then SIGKILL."""
OUTPUT_BYTES_MAX = 4 << 20
"""A larger output file is renamed when the child starts."""
TAIL_BYTES = 2_000

_PR_SET_PDEATHSIG = 1

logger = logging.getLogger("penstock.supervisor")


class SupervisedProcess:
    """One child. `explain` turns the end of its output into a remedy, if it knows one."""

    def __init__(
        self,
        name: str,
        command: Sequence[str],
        output: Path,
        *,
        environment: Mapping[str, str] | None = None,
        explain: Callable[[str], str] = lambda _: "",
    ) -> None:
        self._name = name
        self._command = list(command)
        self._output = output
        self._environment = environment
        self._explain = explain
        self._process: asyncio.subprocess.Process | None = None
        self._supervision: asyncio.Task[None] | None = None
        self.start_count = 0

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

    async def stop(self) -> None:
        """Stop supervising, then the child: SIGTERM, and SIGKILL if it does not exit in time."""
        supervision, self._supervision = self._supervision, None
        if supervision is not None:
            supervision.cancel()
            await asyncio.gather(supervision, return_exceptions=True)
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.terminate()
        try:
            async with asyncio.timeout(STOP_S_MAX):
                await process.wait()
        except TimeoutError:
            logger.warning("%s ignored SIGTERM for %.0f s and is killed", self._name, STOP_S_MAX)
            process.kill()
            await process.wait()

    async def _supervise(self, process: asyncio.subprocess.Process) -> None:
        now, delay_s = asyncio.get_running_loop().time, RESTART_S
        while True:
            started_at = now()
            code = await process.wait()
            if now() - started_at >= STEADY_S:
                delay_s = RESTART_S
            tail = self._tail()
            logger.error(
                "%s exited with code %d, restarting in %.1f s. %sLast output (%s): %s",
                self._name,
                code,
                delay_s,
                self._explain(tail),
                self._output,
                tail.rstrip().rpartition("\n")[2] or "none",
            )
            process, delay_s = await self._restart(delay_s)

    async def _restart(self, delay_s: float) -> tuple[asyncio.subprocess.Process, float]:
        """The new child, and the delay before the next restart."""
        while True:
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, RESTART_S_MAX)
            try:
                return await self._spawn(), delay_s
            except OSError as error:
                logger.error(
                    "cannot start %s, retrying in %.1f s: %s", self._name, delay_s, error.strerror or error
                )

    async def _spawn(self) -> asyncio.subprocess.Process:
        if self._output.exists() and self._output.stat().st_size > OUTPUT_BYTES_MAX:
            self._output.replace(self._output.with_suffix(".old"))
        with self._output.open("ab") as output:
            self._process = process = await asyncio.create_subprocess_exec(
                *self._command,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=None if self._environment is None else dict(self._environment),
                # Ctrl-C reaches the whole foreground group: the parent decides when its children stop.
                start_new_session=True,
                preexec_fn=_die_with_parent(),
            )
        self.start_count += 1
        logger.info("%s started", self._name, extra={"pid": process.pid})
        return process

    def _tail(self) -> str:
        with self._output.open("rb") as output:
            output.seek(max(0, self._output.stat().st_size - TAIL_BYTES))
            return output.read().decode(errors="replace")


def _die_with_parent() -> Callable[[], None] | None:
    """Runs in the child before the program: the kernel sends SIGTERM when the parent dies. Linux only."""
    if sys.platform != "linux":
        return None
    prctl, parent = ctypes.CDLL(None).prctl, os.getpid()

    def arrange() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent died before the call
            os.kill(os.getpid(), signal.SIGKILL)

    return arrange
