"""Members of consumer groups as processes, watched together: who owns what, what was read, what was committed.

Never waits a fixed time: `until` returns as soon as what is waited for is true, and says what it saw if it never is.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from compat.roster import JAVA, KAFKAJS
from compat.runtimes import java_command, node_command

UNTIL_S_MAX = 60.0
LEAVE_S_MAX = 20.0
SESSION_MS = 2_000
TESTS_DIR = Path(__file__).resolve().parent.parent


class Member:
    """One process. What it says is noted by a thread of its own."""

    def __init__(self, troop: Troop, client: str, options: dict[str, Any]) -> None:
        self.client = client
        self.assigned: list[int] = []
        self.assignments: list[list[int]] = []
        """Every assignment it has had, in order."""
        self.reads: list[tuple[int, int, str]] = []
        self.committed: dict[int, int] = {}
        self.refused: list[str] = []
        self._changed = troop.changed
        command = _command(client, troop.bootstrap, {**troop.options, **options})
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=TESTS_DIR)
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def __repr__(self) -> str:
        last = self.reads[-1] if self.reads else None
        return f"<{self.client} owns {self.assigned}, read {len(self.reads)}, last {last}, committed {self.committed}>"

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            fact = json.loads(line)
            with self._changed:
                self._note(fact)
                self._changed.notify_all()
        with self._changed:
            self.assigned = []
            self._changed.notify_all()

    def _note(self, fact: dict[str, Any]) -> None:
        if "assigned" in fact:
            self.assigned = fact["assigned"]
            self.assignments.append(fact["assigned"])
        elif "read" in fact:
            partition, offset, value = fact["read"]
            self.reads.append((partition, offset, value))
        elif "committed" in fact:
            self.committed |= {int(partition): offset for partition, offset in fact["committed"].items()}
        elif "refused" in fact:
            self.refused.append(fact["refused"])

    def kill(self) -> None:
        """kill -9: the broker is not told."""
        self.process.kill()
        self._end()

    def leave(self) -> None:
        """Ask it to leave the group and end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self._end()

    def _end(self) -> None:
        self.process.wait(LEAVE_S_MAX)
        self._thread.join(LEAVE_S_MAX)


class Troop:
    """The members of one group that reads one topic."""

    def __init__(self, bootstrap: str, topic: str, group: str, partitions: int, **options: Any) -> None:
        self.bootstrap = bootstrap
        self.partitions = partitions
        self.options = {"topic": topic, "group": group, "session_ms": SESSION_MS, **options}
        self.changed = threading.Condition()
        self.members: list[Member] = []

    def __enter__(self) -> Troop:
        return self

    def __exit__(self, *_: object) -> None:
        for member in self.members:
            if member.process.poll() is None:
                member.kill()

    def add(self, client: str, **options: Any) -> Member:
        member = Member(self, client, options)
        self.members.append(member)
        return member

    def until(self, what: str, is_true: Callable[[], bool]) -> None:
        """Wait until something is true of the members."""
        deadline = time.monotonic() + UNTIL_S_MAX
        with self.changed:
            while not is_true():
                left_s = deadline - time.monotonic()
                assert left_s > 0, f"never: {what}; {self.members}"
                self.changed.wait(left_s)

    def until_owned_by(self, *members: Member) -> None:
        """Wait until these own all partitions between them, each some, none twice."""

        def is_owned() -> bool:
            owned = sorted(partition for member in members for partition in member.assigned)
            return owned == list(range(self.partitions)) and all(member.assigned for member in members)

        self.until(f"{len(members)} members own everything", is_owned)

    def until_read(self, values: Iterable[str]) -> None:
        """Wait until every value was read by somebody."""
        wanted = set(values)
        self.until("everything is read", lambda: wanted <= {value for _, _, value in self.reads()})

    def until_committed(self, ends: dict[int, int]) -> None:
        """Wait until the members' last commits reach these offsets."""
        self.until(
            f"{ends} is committed",
            lambda: all(self.committed().get(one, 0) >= end for one, end in ends.items()),
        )

    def reads(self) -> list[tuple[int, int, str]]:
        return [read for member in self.members for read in member.reads]

    def committed(self) -> dict[int, int]:
        """The furthest that anybody has committed, by partition."""
        furthest: dict[int, int] = {}
        for member in self.members:
            for partition, offset in member.committed.items():
                furthest[partition] = max(offset, furthest.get(partition, 0))
        return furthest

    def repeated(self) -> list[tuple[int, int]]:
        """Places that were read more than once."""
        counts = Counter((partition, offset) for partition, offset, _ in self.reads())
        return sorted(place for place, count in counts.items() if count > 1)


def _command(client: str, bootstrap: str, options: dict[str, Any]) -> list[str]:
    text = json.dumps(options)
    if client == JAVA:
        return java_command(bootstrap, text, program="Member")
    if client == KAFKAJS:
        return node_command(bootstrap, text, program="member")
    return [sys.executable, "-m", "compat.member", client, bootstrap, text]
