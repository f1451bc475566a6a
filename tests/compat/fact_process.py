"""Programs of the suite as processes that tell facts as lines of JSON. Never waits for a fact: threads note them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

from compat.roster import GO, JAVA, KAFKAJS
from compat.runtimes import go_command, java_command, node_command

LEAVE_S_MAX = 40.0
LAST_WORDS_CHARS = 2_000
HERE = Path(__file__).resolve().parent


def program_command(program: str, client: str, bootstrap: str, options: dict[str, Any]) -> list[str]:
    """The command that runs a program, such as `member`, in the language of a client."""
    text = json.dumps(options)
    if client == JAVA:
        return java_command(bootstrap, text, program=program.capitalize())
    if client == KAFKAJS:
        return node_command(bootstrap, text, program=program)
    if client == GO:
        return go_command(bootstrap, text, program=program)
    return [sys.executable, os.fspath(HERE / "clients" / f"{program}.py"), client, bootstrap, text]


class FactProcess:
    """One process. It ends when its input ends; everything else that ends it is a failure."""

    def __init__(self, command: list[str], changed: threading.Condition) -> None:
        self.failed: list[str] = []
        self._changed = changed
        self._is_dismissed = False
        self._said = b""
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        self._threads = [threading.Thread(target=one, daemon=True) for one in (self._listen, self._overhear)]
        for one in self._threads:
            one.start()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def note(self, fact: dict[str, Any]) -> None:
        """It has told something; the condition is held."""
        self.failed.append(fact["failed"])

    def note_end(self) -> None:
        """It is gone; the condition is held."""

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            fact = json.loads(line)
            with self._changed:
                self.note(fact)
                self._changed.notify_all()
        code = self._process.wait()
        self._threads[1].join()
        with self._changed:
            self.note_end()
            if not self._is_dismissed:
                self.failed.append(f"left by itself with {code}: {self._said.decode(errors='replace')}")
            self._changed.notify_all()

    def _overhear(self) -> None:
        """What it writes to stderr matters only if it fails."""
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said = (self._said + line)[-LAST_WORDS_CHARS:]

    def kill(self) -> None:
        """kill -9: the broker is not told."""
        self._is_dismissed = True
        self._process.kill()
        self._end()

    def leave(self) -> None:
        """Ask it to finish and end."""
        self._is_dismissed = True
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._end()

    def _end(self) -> None:
        self._process.wait(LEAVE_S_MAX)
        for one in self._threads:
            one.join(LEAVE_S_MAX)
