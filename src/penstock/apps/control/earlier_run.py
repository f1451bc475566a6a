"""Processes that an earlier coordinator of this directory has left running: found, judged, stopped. Adopts none itself.

A process of a cluster is known by its command line, which names its ready file below the directory: also one that is
just starting, or that has lost its ready file. Another process that has got the same id since is never taken for it.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.apps.process_handle import AdoptedProcess
from penstock.node.runtime.disk import DirectoryLock

READY_FLAG = "--ready-file="
_PROGRAMS = ("start", "producer-service", "consumer-service")
_METADATA_PROGRAM = "penstock.apps.coordinator"

logger = logging.getLogger("penstock.cluster")


class EarlierProcess(NamedTuple):
    """A process of the directory. The name is that of its ready file: `broker-3`, `coordinator`, `producer`."""

    name: str
    pid: int
    command: tuple[str, ...]


def find_processes(run_dir: Path) -> list[EarlierProcess]:
    """All processes of this user that have their ready file in the directory, by name and id."""
    found, own = list[EarlierProcess](), os.getuid()
    run_dir = run_dir.resolve()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            if entry.stat().st_uid != own:
                continue
            command = tuple(
                Path(entry.path, "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
            )
        except OSError:  # it has just ended
            continue
        ready_file = _ready_file_of(command)
        if ready_file is not None and ready_file.parent.resolve() == run_dir:
            found.append(EarlierProcess(ready_file.stem, int(entry.name), command))
    return sorted(found)


def _ready_file_of(command: Sequence[str]) -> Path | None:
    """The ready file of a process that `cluster up` may have started."""
    is_ours = len(command) > 3 and (command[2] == _METADATA_PROGRAM or command[3] in _PROGRAMS)
    if not is_ours or not command[-1].startswith(READY_FLAG):
        return None
    return Path(command[-1].removeprefix(READY_FLAG))


def read_ready(path: Path) -> Mapping[str, object]:
    """The content of a ready file; empty if there is none."""
    try:
        content: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    return content


def adoption_obstacle(
    process: EarlierProcess,
    ready: Mapping[str, object],
    commands: Sequence[Sequence[str]],
    lock_holder: str | None,
) -> str:
    """Why the process cannot go on under this coordinator; empty if it can.

    `commands` are the command lines that this start would give it. `lock_holder` is who holds the lock of its data
    directory: empty if nobody does, None if it has no directory.
    """
    if ready.get("pid") != process.pid:
        return "it is not ready"
    if list(process.command) not in [list(command) for command in commands]:
        return "its settings or ports differ from those of this start"
    if lock_holder is not None and lock_holder != str(process.pid):
        return "it does not hold the lock of its data directory"
    return ""


def lock_holder(directory: Path) -> str:
    """The id of the process that holds the lock of a data directory; empty if nobody does."""
    if not (directory / ".lock").exists():
        return ""
    lock = DirectoryLock(directory)
    try:
        return lock.holder() if lock.is_held() else ""
    finally:
        lock.release()


async def stop_processes(processes: Sequence[EarlierProcess], limit_s: float) -> dict[int, str]:
    """Stop processes together with SIGTERM, with SIGKILL after the limit. Returns how each has ended, by id: empty if
    it exited by itself."""
    return dict(await asyncio.gather(*(_stop_process(one, limit_s) for one in processes)))


async def _stop_process(one: EarlierProcess, limit_s: float) -> tuple[int, str]:
    try:
        process = AdoptedProcess(one.pid)
    except ProcessLookupError:
        return one.pid, ""
    process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(limit_s):
            await process.wait()
    except TimeoutError:
        logger.warning("%s (pid %d) ignored SIGTERM for %.0f s and is killed", one.name, one.pid, limit_s)
        process.send_signal(signal.SIGKILL)
        await process.wait()
        return one.pid, f"killed, it ignored SIGTERM for {limit_s:.0f} s"
    return one.pid, ""
