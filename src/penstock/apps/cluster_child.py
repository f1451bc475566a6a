"""A process of a local cluster: supervised, and known to be ready by the file that it writes.

A child that refuses to start (exit code 1 or 2) before it was ready once is not restarted: what it says is the user's
to act on. Later it is restarted whatever its exit code.
"""

from __future__ import annotations

import asyncio
import json
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path

from penstock.apps.ready import StartError
from penstock.apps.supervised_process import SupervisedProcess, describe_exit

READY_POLL_S = 0.02
WAITING_S = 10.0
"""How often a start that takes long is mentioned."""
REFUSALS = (1, 2)
"""Exit codes of a broker or coordinator that says why it cannot start."""

logger = logging.getLogger("penstock.cluster")


class ClusterChild:
    """One broker or the coordinator. `command` returns its command line from what it said when it was last ready, so
    that a port that was picked for it is its port after a restart."""

    def __init__(
        self,
        name: str,
        command: Callable[[Mapping[str, object]], Sequence[str]],
        ready_file: Path,
        log_file: Path | None,
        environment: Mapping[str, str],
        *,
        stop_s_max: float,
        core: int | None = None,
        on_exit: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.name = name
        self._on_exit = on_exit
        """Called as soon as the process has ended without being told to, before another one is started."""
        self.ready: Mapping[str, object] = {}
        """What it said when it was last ready; empty before."""
        self._command = command
        self._ready_file = ready_file
        self._log_file = log_file
        self._watch: asyncio.Task[None] | None = None
        self.process = SupervisedProcess(
            name,
            (),
            log_file,
            environment=environment,
            prepare=self._prepare,
            is_final=lambda code: not self.ready and code in REFUSALS,
            core=core,
            stop_s_max=stop_s_max,
        )

    def _prepare(self) -> Sequence[str]:
        self._ready_file.unlink(missing_ok=True)
        return self._command(self.ready)

    async def start(self) -> None:
        """Start and wait until it is ready. Raises StartError with its own words if it refuses."""
        try:
            await self.process.start()
        except OSError as error:
            raise StartError(f"Cannot start {self.name}: {error.strerror or error}.") from error
        self.ready = await self._await_ready()
        logger.info("%s is ready", self.name, extra={"pid": self.ready["pid"], "port": self.ready["port"]})
        self._watch = asyncio.get_running_loop().create_task(self._watch_restarts())

    async def stop(self, *, at_once: bool = False) -> int:
        """Returns the exit code; 0 if it was not running, or had not begun: then SIGTERM ends it at once."""
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)
        code = await self.process.stop(at_once=at_once)
        self._ready_file.unlink(missing_ok=True)
        return 0 if code == -signal.SIGTERM else code

    async def _watch_restarts(self) -> None:
        while True:
            await self.process.wait()
            if self._on_exit is not None:
                await self._on_exit()
            self.ready = await self._await_ready()
            logger.info(
                "%s is ready again", self.name, extra={"pid": self.ready["pid"], "port": self.ready["port"]}
            )

    async def _await_ready(self) -> Mapping[str, object]:
        loop = asyncio.get_running_loop()
        mention_at = loop.time() + WAITING_S
        while (ready := self._read_ready()) is None:
            if self.process.final_code is not None:
                raise self._refusal(self.process.final_code)
            if loop.time() >= mention_at:
                mention_at += WAITING_S
                logger.info("waiting for %s to become ready", self.name, extra=self._hint())
            await asyncio.sleep(READY_POLL_S)
        return ready

    def _read_ready(self) -> Mapping[str, object] | None:
        """What the running child says; None while it says nothing."""
        try:
            ready: dict[str, object] = json.loads(self._ready_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        return ready if ready["pid"] == self.process.pid else None

    def _hint(self) -> dict[str, object]:
        return {"pid": self.process.pid, **({} if self._log_file is None else {"log": str(self._log_file)})}

    def _refusal(self, code: int) -> StartError:
        last_line = self.process.tail().rstrip().rpartition("\n")[2].removeprefix("Error: ")
        reason = last_line or "its log says why"
        return StartError(f"{self.name} cannot start ({describe_exit(code)}): {reason}")
