"""A crew of copiers: processes that consume, transform and produce in transactions. Never knows what is right."""

from __future__ import annotations

import subprocess
import threading
import time

from compat.fact_process import program_command

COPIED_S_MAX = 90.0
LOOK_S = 0.5
LAST_WORDS_CHARS = 300
SESSION_MS = 3_000
TRANSACTION_MS = 3_000
"""So long those that take over have to wait for what a killed member left open."""


class Copier:
    """One process; `copied` counts the records of transactions that it knows to be committed."""

    def __init__(self, command: list[str]) -> None:
        self.copied = 0
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self._said = ""
        self._listeners = [threading.Thread(target=one, daemon=True) for one in (self._count, self._overhear)]
        for one in self._listeners:
            one.start()

    def _count(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.copied += int(line)

    def _overhear(self) -> None:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            self._said = (self._said + line)[-LAST_WORDS_CHARS:]

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def last_words(self) -> str:
        """The end of what it wrote to stderr, once it has left."""
        self._listeners[1].join()
        return f"left with {self._process.poll()}: {self._said}"

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


class Crew:
    """The copiers of one group, and whoever takes the place of those that cannot go on."""

    def __init__(
        self, bootstrap: str, client: str, protocol: str, group: str, source: str, target: str
    ) -> None:
        self._client = client
        self._bootstrap = bootstrap
        self._options = {
            "group": group,
            "protocol": protocol,
            "session_ms": SESSION_MS,
            "timeout_ms": TRANSACTION_MS,
            "source": source,
            "target": target,
        }
        self._hired = 0
        self._copiers: list[Copier] = []
        self._left: list[str] = []

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        while self._copiers:
            self.kill_one()

    def hire(self) -> None:
        """One more, with a transactional id of its own."""
        self._hired += 1
        options = {**self._options, "id": f"copier-{self._hired}"}
        self._copiers.append(Copier(program_command("copier", self._client, self._bootstrap, options)))

    def kill_one(self) -> None:
        """kill -9: its transaction stays open."""
        self._copiers.pop(0).kill()

    def until_all_copy(self) -> None:
        """Wait until each of them has copied something from now on."""
        known = {one: one.copied for one in self._copiers}
        deadline = time.monotonic() + COPIED_S_MAX
        while not all(one.copied > known.get(one, 0) for one in self._copiers):
            assert time.monotonic() < deadline, (
                f"copied {[one.copied for one in self._copiers]}, {self._hired} hired, {self._left} left"
            )
            time.sleep(LOOK_S)
            self.replace_leavers()

    def replace_leavers(self) -> None:
        """Those that could not go on, as a supervisor would."""
        for copier in [one for one in self._copiers if not one.is_running]:
            self._left.append(copier.last_words())
            self._copiers.remove(copier)
            self.hire()
