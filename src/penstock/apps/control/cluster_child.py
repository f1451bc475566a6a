"""A process of a local cluster: supervised, and known to be ready by the file that it writes.

A child that refuses to start (exit code 1 or 2) before it was ready once is not restarted: what it says is the user's
to act on. Later it is restarted whatever its exit code, until it exits too often.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from penstock.apps.control.earlier_run import (
    EarlierProcess,
    adoption_obstacle,
    lock_holder,
    read_ready,
)
from penstock.apps.process_handle import AdoptedProcess
from penstock.apps.ready import StartError
from penstock.apps.supervised_process import SupervisedProcess, describe_exit

READY_POLL_S = 0.02
WAITING_S = 10.0
"""How often a start that takes long is mentioned."""
REFUSALS = (1, 2)
"""Exit codes of a process that says why it cannot start."""
LINES_SHOWN = 5

CommandLine = Callable[[Mapping[str, object]], Sequence[str]]

logger = logging.getLogger("penstock.cluster")


class ClusterChild:
    """A broker, a service or the metadata process. `command` returns its command line from what it said when it was
    last ready, so that a port that was picked for it is its port after a restart."""

    def __init__(
        self,
        name: str,
        command: CommandLine,
        ready_file: Path,
        log_file: Path | None,
        environment: Mapping[str, str],
        *,
        stop_s_max: float,
        core: int | None = None,
        on_exit: Callable[[], Awaitable[None]] | None = None,
        data_dir: Path | None = None,
        exits_max: int | None = None,
        outlives: bool = False,
    ) -> None:
        self.name = name
        self._on_exit = on_exit
        """Called as soon as the process has ended without being told to, before another one is started."""
        self.ready: Mapping[str, object] = {}
        """What it said when it was last ready; empty before."""
        self.is_wanted = False
        """Whether it should run: it was started and not stopped."""
        self.is_adopted = False
        """Whether another coordinator started the process."""
        self.failure = ""
        """Why it was given up; empty if it was not."""
        self._command = command
        self._ready_file = ready_file
        self.log_file = log_file
        self._data_dir = data_dir
        self._was_ready = False
        self._watch: asyncio.Task[None] | None = None
        self.process = SupervisedProcess(
            name,
            (),
            log_file,
            environment=environment,
            prepare=self._prepare,
            is_final=lambda code: not self._was_ready and code in REFUSALS,
            core=core,
            stop_s_max=stop_s_max,
            exits_max=exits_max,
            outlives=outlives,
        )

    @property
    def file_name(self) -> str:
        """Of its ready file and its log, without their suffix."""
        return self._ready_file.stem

    @property
    def is_ready(self) -> bool:
        """Whether the process that runs now has said that it is ready."""
        return self.process.pid is not None and self.ready.get("pid") == self.process.pid

    def _prepare(self) -> Sequence[str]:
        self._ready_file.unlink(missing_ok=True)
        return self._command(self.ready)

    # -- an earlier run

    def remember(self) -> None:
        """Take over what a process of an earlier run said, so that the next one gets its ports."""
        self.ready = read_ready(self._ready_file)

    def obstacle(self, found: EarlierProcess) -> str:
        """Why this process cannot be adopted; empty if it can. `remember` comes first."""
        commands = [self._command(self.ready), self._command({})]
        holder = None if self._data_dir is None else lock_holder(self._data_dir)
        return adoption_obstacle(found, self.ready, commands, holder)

    def adopt(self, found: EarlierProcess) -> None:
        """Supervise a process of an earlier run. Raises ProcessLookupError if it has just ended."""
        process = AdoptedProcess(found.pid)
        try:
            self.process.adopt(process)
        except OSError as error:
            process.close()
            raise ProcessLookupError(found.pid) from error
        self.is_wanted = self.is_adopted = self._was_ready = True
        self.failure = ""
        logger.info("%s adopted", self.name, extra={"pid": found.pid})
        self._watch = asyncio.get_running_loop().create_task(self._watch_restarts())

    async def release(self) -> None:
        """Stop supervising; the process runs on."""
        await self._end_watch()
        process = await self.process.release()
        if isinstance(process, AdoptedProcess):
            process.close()

    # -- start and stop

    async def start(self) -> None:
        """Start and wait until it is ready. Raises StartError with its own words if it refuses."""
        self.is_wanted, self.is_adopted, self._was_ready, self.failure = True, False, False, ""
        try:
            await self.process.start()
            await self._await_ready()
        except OSError as error:
            self.failure = f"Cannot start {self.name}: {error.strerror or error}."
            raise StartError(self.failure) from error
        except StartError as error:
            self.failure = str(error)
            raise
        logger.info("%s is ready", self.name, extra=self._place())
        self._watch = asyncio.get_running_loop().create_task(self._watch_restarts())

    async def stop(self, *, at_once: bool = False) -> int:
        """Returns the exit code; 0 if it was not running, or had not begun: then SIGTERM ends it at once."""
        self.is_wanted = False
        await self._end_watch()
        code = await self.process.stop(at_once=at_once)
        self._ready_file.unlink(missing_ok=True)
        return 0 if code == -signal.SIGTERM else code

    async def _end_watch(self) -> None:
        watch, self._watch = self._watch, None
        if watch is not None:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)

    async def _watch_restarts(self) -> None:
        with suppress(StartError):  # the supervisor has reported it
            while True:
                await self.process.wait()
                self.is_adopted = False
                if self._on_exit is not None:
                    await self._on_exit()
                try:
                    await self._await_ready()
                except StartError as error:
                    self.failure = str(error)
                    raise
                logger.info("%s is ready again", self.name, extra=self._place())

    async def _await_ready(self) -> None:
        loop = asyncio.get_running_loop()
        mention_at = loop.time() + WAITING_S
        while True:
            ready = read_ready(self._ready_file)
            if ready and ready["pid"] == self.process.pid:
                self.ready, self._was_ready = ready, True
                return
            if self.process.is_given_up:
                raise StartError(f"{self.name} {self.process.last_exit} too often; {self._last_lines()}")
            if self.process.final_code is not None:
                raise self._refusal(self.process.final_code)
            if loop.time() >= mention_at:
                mention_at += WAITING_S
                logger.info("waiting for %s to become ready", self.name, extra=self._hint())
            await asyncio.sleep(READY_POLL_S)

    def _place(self) -> dict[str, object]:
        return {"pid": self.ready["pid"], "port": self.ready["port"]}

    def _hint(self) -> dict[str, object]:
        return {"pid": self.process.pid, **({} if self.log_file is None else {"log": str(self.log_file)})}

    def _refusal(self, code: int) -> StartError:
        last_line = self.process.tail().rstrip().rpartition("\n")[2].removeprefix("Error: ")
        reason = last_line or "its log says why"
        return StartError(f"{self.name} cannot start ({describe_exit(code)}): {reason}")

    def _last_lines(self) -> str:
        lines = self.process.tail().splitlines()[-LINES_SHOWN:]
        return "last lines of its log:\n" + "\n".join(lines) if lines else "its log says why"
