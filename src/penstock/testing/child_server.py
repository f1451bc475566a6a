"""A server of ours as a child process, observed only through its ready file, exit code and log output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from abc import ABC, abstractmethod
from pathlib import Path

READY_S_MAX = 20.0
STOP_S_MAX = 15.0
POLL_S = 0.01
LOG_TAIL_CHARS = 4000
SOURCE_DIR = Path(__file__).resolve().parents[2]


class BrokerDied(Exception):
    """A broker failed to start, exited by itself, or ignored SIGTERM. The message has the end of its log."""


class ChildServer(ABC):
    """One process with a log file and a ready file in its home. Can be killed, stopped and started again."""

    noun = "broker"
    ready_s_max = READY_S_MAX
    """How long a start may take; a subclass may be more patient."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.data_dir = home / "data"
        self.log_path = home / f"{self.noun}.log"
        self.ready_path = home / "ready.json"
        self.wrapper: tuple[str, ...] = ()
        """A command that runs this one as the same process, such as `nsenter --net=FILE`."""
        self._process: subprocess.Popen[bytes] | None = None
        self._ran_before = False

    @abstractmethod
    def _command_line(self) -> list[str]:
        """The command of the next start."""

    @abstractmethod
    def _set_ready(self, ready: dict[str, object]) -> None:
        """Take over the ports of a process that is ready."""

    @property
    def pid(self) -> int:
        return self._running().pid

    @property
    def is_running(self) -> bool:
        """Whether it was started and not stopped or killed by its owner."""
        return self._process is not None

    def output(self) -> str:
        """The output so far, across all starts."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def start(self) -> None:
        """Start and wait for the ready file. Raises BrokerDied.

        A restart reuses the ports. If another process holds one as an ephemeral port, the start is retried, because
        such connections are usually short-lived.
        """
        deadline = time.monotonic() + self.ready_s_max
        while True:
            self.launch()
            try:
                self.await_ready()
                return
            except BrokerDied:
                if not (self._ran_before and self._failed_to_bind()) or time.monotonic() > deadline:
                    raise

    def launch(self) -> None:
        """Start without waiting, so that a test can observe or kill the process while it starts."""
        assert self._process is None, f"the {self.noun} is already running"
        self.home.mkdir(parents=True, exist_ok=True)
        self.ready_path.unlink(missing_ok=True)
        path = os.pathsep.join(filter(None, [str(SOURCE_DIR), os.environ.get("PYTHONPATH", "")]))
        environment = {**os.environ, "PYTHONPATH": path}
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                [*self.wrapper, *self._command_line()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment,
            )

    def kill(self) -> None:
        """Send SIGKILL: no drain, no flush."""
        process = self._running()
        process.send_signal(signal.SIGKILL)
        process.wait()
        self._process = None

    def stop(self, wait_s_max: float = STOP_S_MAX) -> int:
        """Send SIGTERM and return the exit code. Raises BrokerDied on a timeout; never kills."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(wait_s_max)
        except subprocess.TimeoutExpired:
            raise BrokerDied(f"the {self.noun} ignored SIGTERM\n{self._tail()}") from None
        self._process = None
        return code

    def restart(self) -> None:
        """Stop cleanly if running, then start with the same data directory and ports."""
        if self._process is not None:
            self.stop()
        self.start()

    def close(self) -> None:
        """Stop the process if needed. Raises BrokerDied if it had exited by itself or ignores SIGTERM."""
        process, self._process = self._process, None
        if process is None:
            return
        code = process.poll()
        if code is not None:
            raise BrokerDied(f"the {self.noun} exited unexpectedly, exit code {code}\n{self._tail()}")
        process.terminate()
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerDied(f"the {self.noun} ignored SIGTERM\n{self._tail()}") from None

    def await_ready(self) -> None:
        """Wait for the ready file after `launch`. Raises BrokerDied."""
        process = self._running()
        deadline = time.monotonic() + self.ready_s_max
        while time.monotonic() < deadline:
            code = process.poll()
            if code is not None:
                self._process = None
                raise BrokerDied(
                    f"the {self.noun} exited before it was ready, exit code {code}\n{self._tail()}"
                )
            if self.ready_path.exists() and (text := self.ready_path.read_text()).rstrip().endswith("}"):
                self._set_ready(json.loads(text))
                self._ran_before = True
                return
            time.sleep(POLL_S)
        process.kill()
        process.wait()
        self._process = None
        raise BrokerDied(f"no ready file within {self.ready_s_max} s\n{self._tail()}")

    def _failed_to_bind(self) -> bool:
        return "Cannot listen on" in self.output().rstrip().rpartition("\n")[2]

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, f"the {self.noun} is not running"
        return self._process

    def _tail(self) -> str:
        return self.output()[-LOG_TAIL_CHARS:]
