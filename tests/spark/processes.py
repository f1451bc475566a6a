"""Processes below one, as Linux tells of them: who they are, what they hold, how to end one. Never ends others."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")

DAEMON = "spark.daemon"
"""In the command line of every Python worker: `penstock.spark.daemon`, or Spark's own `pyspark.daemon`."""


def below(ancestor: int, word: str = "") -> list[int]:
    """Processes that descend from this one and whose command holds the word, parents before their children."""
    children: dict[int, list[int]] = {}
    for pid, parent in sorted(_parents().items()):
        children.setdefault(parent, []).append(pid)
    family = [ancestor]
    for pid in family:
        family += children.get(pid, ())
    return [pid for pid in family[1:] if word in _command(pid)]


def kill_9(pid: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def ports(pid: int) -> set[int]:
    """The ports on this side of the connections that a process has."""
    sockets = set()
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                sockets.add(str(entry.readlink()))
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    return {int(row[1].partition(":")[2], 16) for row in rows if f"socket:[{row[9]}]" in sockets}


def resident_bytes(pid: int) -> int:
    """How much memory a process holds; nothing when it is gone."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    return 0


def _parents() -> dict[int, int]:
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            with suppress(OSError):
                found[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    return found


def _command(pid: int) -> str:
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""
