"""A real broker as a child process, for tests, demos and notebooks: start, kill, stop, restart, read its log.

Observes the broker only through its ready file, exit code and log output.

    with running_broker(storage="memory") as broker:
        Producer(bootstrap=broker.bootstrap)
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

READY_S_MAX = 20.0
STOP_S_MAX = 15.0
POLL_S = 0.01
LOG_TAIL_CHARS = 4000
SOURCE_DIR = Path(__file__).resolve().parents[2]

Flag = str | int | bool | Path


def _arguments(flags: dict[str, Flag]) -> list[str]:
    """`log_level="debug"` becomes `--log-level debug`; True is a bare flag, False omits it."""
    arguments: list[str] = []
    for name, value in flags.items():
        option = "--" + name.replace("_", "-")
        if value is True:
            arguments.append(option)
        elif value is not False:
            arguments += [option, str(value)]
    return arguments


class BrokerDied(Exception):
    """The broker failed to start, exited by itself, or ignored SIGTERM. The message has the end of its log."""


PORTS = ("port", "text_port", "json_port", "queue_port", "http_port")
"""Port flags of `penstock start`. Each defaults to a free port, so that brokers can run side by side."""


class Broker:
    """One broker process with one data directory. Keeps its ports across restarts."""

    command: tuple[str, ...] = (sys.executable, "-m", "penstock")
    """The command line; a subclass may wrap it."""

    def __init__(self, home: Path, flags: dict[str, Flag]) -> None:
        self.home = home
        self.data_dir = home / "data"
        self.log_path = home / "broker.log"
        self.ready_path = home / "ready.json"
        self.host = "127.0.0.1"
        self._ports = {name: str(flags.get(name, 0)) for name in PORTS}
        self._flags = {name: value for name, value in flags.items() if name not in PORTS}
        self._process: subprocess.Popen[bytes] | None = None
        self._ran_before = False

    @property
    def port(self) -> int:
        """Kafka port; 0 before the first start."""
        return int(self._ports["port"])

    @property
    def text_port(self) -> int:
        return self._door("text_port")

    @property
    def json_port(self) -> int:
        return self._door("json_port")

    @property
    def queue_port(self) -> int:
        return self._door("queue_port")

    @property
    def http_port(self) -> int:
        return self._door("http_port")

    def _door(self, name: str) -> int:
        assert self._ports[name] not in ("0", "off"), f"{name}: this listener is off or not started"
        return int(self._ports[name])

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    @property
    def pid(self) -> int:
        return self._running().pid

    def output(self) -> str:
        """The broker's output so far, across all starts."""
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def start(self) -> None:
        """Start and wait for the ready file. Raises BrokerDied.

        A restart reuses the ports. If another process holds one as an ephemeral port, the start is retried, because
        such connections are usually short-lived.
        """
        deadline = time.monotonic() + READY_S_MAX
        while True:
            self.launch()
            try:
                ready = self._await_ready()
                break
            except BrokerDied:
                if not (self._ran_before and self._failed_to_bind()) or time.monotonic() > deadline:
                    raise
        self._ran_before = True
        self.host = str(ready["host"])
        self._ports |= {name: str(ready[name]) for name in PORTS if name in ready}

    def launch(self) -> None:
        """Start without waiting, so that a test can observe or kill the process while it starts."""
        assert self._process is None, "the broker is already running"
        self.ready_path.unlink(missing_ok=True)
        command = [
            *(*self.command, "start"),
            *("--data-dir", str(self.data_dir), "--ready-file", str(self.ready_path)),
            *_arguments({**self._ports, **self._flags}),
        ]
        path = os.pathsep.join(filter(None, [str(SOURCE_DIR), os.environ.get("PYTHONPATH", "")]))
        environment = {**os.environ, "PYTHONPATH": path}
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment
            )

    def kill(self) -> None:
        """Send SIGKILL: no drain, no flush."""
        process = self._running()
        process.send_signal(signal.SIGKILL)
        process.wait()
        self._process = None

    def stop(self) -> int:
        """Send SIGTERM and return the exit code. Raises BrokerDied on a timeout; never kills."""
        process = self._running()
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            raise BrokerDied(f"the broker ignored SIGTERM\n{self._tail()}") from None
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
            raise BrokerDied(f"the broker exited unexpectedly, exit code {code}\n{self._tail()}")
        process.terminate()
        try:
            process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise BrokerDied(f"the broker ignored SIGTERM\n{self._tail()}") from None

    def _await_ready(self) -> dict[str, object]:
        process = self._running()
        deadline = time.monotonic() + READY_S_MAX
        while time.monotonic() < deadline:
            code = process.poll()
            if code is not None:
                self._process = None
                raise BrokerDied(f"the broker exited before it was ready, exit code {code}\n{self._tail()}")
            if self.ready_path.exists() and (text := self.ready_path.read_text()).rstrip().endswith("}"):
                ready: dict[str, object] = json.loads(text)
                return ready
            time.sleep(POLL_S)
        process.kill()
        process.wait()
        self._process = None
        raise BrokerDied(f"no ready file within {READY_S_MAX} s\n{self._tail()}")

    def _failed_to_bind(self) -> bool:
        return "Cannot listen on" in self.output().rstrip().rpartition("\n")[2]

    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "the broker is not running"
        return self._process

    def _tail(self) -> str:
        return self.output()[-LOG_TAIL_CHARS:]


@contextmanager
def running_broker(home: Path | None = None, **flags: Flag) -> Iterator[Broker]:
    """A ready broker; keywords are the flags of `penstock start` with underscores. `home` is not deleted."""
    with tempfile.TemporaryDirectory(prefix="penstock-") as scratch:
        broker = Broker(home or Path(scratch), dict(flags))
        broker.start()
        try:
            yield broker
        finally:
            broker.close()
