"""`penstock cluster up` as a user has it: a process, its ready line, and the processes below it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from conditions import until

COMMAND = [sys.executable, "-m", "penstock"]
EXIT_S_MAX = 120
QUICK = ("--text-port", "off", "--json-port", "off", "--queue-port", "off")
TIED = ("--no-services", "--api-port", "off", "--console-port", "off", "--die-with-parent")
"""Only brokers and their metadata, which end with the command."""


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


class LocalUp:
    """One run of a command that starts a cluster. `ready` is its ready line."""

    def __init__(self, home: Path, words: tuple[str, ...]) -> None:
        self.home = home
        self.root = home / "cluster"
        self.ready_file = home / "up.json"
        self.log = home / "up.log"
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*COMMAND, *words, "--data-dir", str(self.root), "--ready-file", str(self.ready_file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def await_ready(self) -> None:
        def is_ready() -> bool:
            assert self.process.poll() is None, self.output()
            try:
                return bool(self.ready["pid"] == self.process.pid)
            except FileNotFoundError:  # not written yet, or that of a killed command, removed by this one
                return False

        until(is_ready, "the cluster did not become ready")

    @property
    def ready(self) -> dict[str, Any]:
        content: dict[str, Any] = json.loads(self.ready_file.read_text())
        return content

    def output(self) -> str:
        return self.log.read_text()

    def child(self, name: str) -> dict[str, Any]:
        """The ready file of a broker or the coordinator; empty while it has none."""
        path = self.root / "run" / f"{name}.json"
        return json.loads(path.read_text()) if path.exists() else {}

    def pids(self) -> list[int]:
        """The process ids of all children, at the start."""
        return [self.ready["coordinator"]["pid"], *(broker["pid"] for broker in self.ready["brokers"])]

    def await_restart(self, name: str, old_pid: int) -> dict[str, Any]:
        until(lambda: self.child(name).get("pid", old_pid) != old_pid, f"{name} was not restarted")
        return self.child(name)

    def end(self, number: signal.Signals = signal.SIGTERM) -> int:
        self.process.send_signal(number)
        return self.process.wait(EXIT_S_MAX)


@contextmanager
def cluster_up(home: Path, *words: str, brokers: int = 2) -> Iterator[LocalUp]:
    """A ready cluster on free ports."""
    up = LocalUp(
        home,
        (
            "cluster",
            "up",
            "--no-console",
            "--brokers",
            str(brokers),
            "--base-port",
            "0",
            *QUICK,
            *TIED,
            *words,
        ),
    )
    with ended(up):
        up.await_ready()
        yield up


@contextmanager
def ended(up: LocalUp) -> Iterator[None]:
    """Whatever the test did, nothing of the command remains."""
    try:
        yield
    finally:
        if up.process.poll() is None:
            up.process.kill()
        up.process.wait()


def run(*words: str, code: int) -> str:
    """What a command says that ends with this exit code."""
    ran = subprocess.run(
        [*COMMAND, *words], capture_output=True, text=True, timeout=EXIT_S_MAX, env=os.environ
    )
    assert ran.returncode == code, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stderr
    return ran.stdout + ran.stderr
