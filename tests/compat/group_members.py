"""Members of groups as processes that can be closed, killed and watched. Never looks at the broker's side."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from compat.runtimes import java_command

PATIENCE_S = 40.0
CONFLUENT, JAVA = "confluent-kafka", "java"
Place = tuple[str, int]


class MemberFailed(Exception):
    """A member ended, or reported an error that is not part of any rebalance."""


class Member:
    """One process. What it has told so far can be read at any time."""

    def __init__(self, client: str, bootstrap: str, group: str, topics: list[str], **config: str) -> None:
        settings = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
            **{name.replace("_", "."): value for name, value in config.items()},
        }
        script = str(Path(__file__).parent / "clients" / "confluent_member.py")
        command = [sys.executable, script] if client == CONFLUENT else java_command(program="GroupMember")
        self.name = f"{client} {config.get('client_id', '')}"
        self.holds: frozenset[Place] = frozenset()
        self.changes = 0
        self.records: list[tuple[str, int, int, str]] = []
        self.commits = 0
        self.errors: list[str] = []
        self._changed = threading.Condition()
        self._process = subprocess.Popen(
            [*command, json.dumps({"config": settings, "topics": topics})],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            told = json.loads(line)
            with self._changed:
                self._hear(told)
                self._changed.notify_all()
        with self._changed:
            self.holds = frozenset()
            self._changed.notify_all()

    def _hear(self, told: dict[str, Any]) -> None:
        if "holds" in told:
            self.holds = frozenset((topic, partition) for topic, partition in told["holds"])
            self.changes += 1
        self.records += [tuple(one) for one in told.get("records", ())]
        self.commits += "committed" in told
        if "error" in told:
            self.errors.append(told["error"])

    def leave(self) -> None:
        """Go politely, and return when that is done."""
        assert self._process.stdin is not None
        self._process.stdin.write("leave\n")
        self._process.stdin.close()
        if self._process.wait(PATIENCE_S) != 0:
            raise MemberFailed(f"{self.name} left with {self._process.returncode}")
        self._listener.join()

    def kill(self) -> None:
        """kill -9: it says nothing to anybody."""
        self._process.kill()
        self._process.wait()
        self._listener.join()

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None


def await_that(holds_true: Callable[[], bool], members: Iterable[Member], what: str) -> None:
    """Wait until something is so; say what all members hold if it never is."""
    members = list(members)
    end_s = time.monotonic() + PATIENCE_S
    while not holds_true():
        errors = [(one.name, one.errors) for one in members if one.errors]
        if errors:
            raise MemberFailed(f"{what}: {errors}")
        if time.monotonic() > end_s:
            seen = {one.name: (sorted(one.holds), len(one.records), one.is_running) for one in members}
            raise MemberFailed(f"{what} never came true; members hold {seen}")
        time.sleep(0.02)


def await_shares(members: list[Member], shares: list[int]) -> None:
    """Wait until the members hold that many partitions each (in any order), no two of them the same."""

    def is_so() -> bool:
        held = [one.holds for one in members]
        return sorted(map(len, held)) == sorted(shares) and len(frozenset().union(*held)) == sum(shares)

    await_that(is_so, members, f"shares of {shares}")
