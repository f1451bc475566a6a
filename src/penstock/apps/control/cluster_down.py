"""Stops a local cluster from outside, whether its coordinator lives or not: services, brokers, metadata, in order."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from penstock.apps.control.cluster_plan import COORDINATOR, METADATA
from penstock.apps.control.cluster_run import read_stop_report
from penstock.apps.control.console_token import remove_token
from penstock.apps.control.earlier_run import EarlierProcess, find_processes, stop_processes
from penstock.apps.control.local_cluster import stop_order
from penstock.apps.process import CLUSTER_FILE
from penstock.apps.process_handle import AdoptedProcess
from penstock.apps.ready import StartError
from penstock.apps.supervised_process import describe_exit
from penstock.node.runtime.disk import DirectoryLock

PROCESS_S_MAX = 60.0
"""Time for a process to stop before it is killed."""
COORDINATOR_S_MAX = 240.0
"""Time for a coordinator to stop all its processes; it kills those that take too long."""
CLEAN = "stopped cleanly"


class StoppedProcess(NamedTuple):
    """How one process has ended."""

    name: str
    pid: int
    outcome: str

    @property
    def is_clean(self) -> bool:
        return self.outcome == CLEAN


def stop_cluster(root: Path) -> list[StoppedProcess]:
    """Stop everything that runs in the directory of a cluster; returns what it was, in the order of the stop. Raises
    StartError if it is no such directory, or its coordinator does not stop."""
    if not (root / CLUSTER_FILE).exists():
        raise StartError(f"{root} is not the directory of a local cluster; name it with --data-dir.")
    return asyncio.run(_stop_cluster(root))


async def _stop_cluster(root: Path) -> list[StoppedProcess]:
    running = [one for group in stop_order(find_processes(root / "run")) for one in group]
    lock = DirectoryLock(root)
    try:
        coordinator: list[StoppedProcess] = []
        codes: Mapping[str, int] = {}
        if not lock.acquire():
            coordinator = [await _stop_coordinator(int(lock.holder()))]
            codes = read_stop_report(root)
            if not lock.acquire():
                raise StartError(
                    f"Another coordinator (pid {lock.holder()}) has just taken {root}; stop it again."
                )
        left = find_processes(root / "run")
        outcomes = dict[int, str]()
        for group in stop_order(left):
            ends = await stop_processes(group, PROCESS_S_MAX)
            outcomes |= {pid: end or CLEAN for pid, end in ends.items()}
        for one in running:
            (root / "run" / f"{one.name}.json").unlink(missing_ok=True)
        remove_token(root / "run")
    finally:
        lock.release()
    known = {one.pid for one in running}
    everything = [*running, *(one for one in left if one.pid not in known)]
    return [
        *(
            StoppedProcess(_shown(one), one.pid, outcomes.get(one.pid) or _outcome(codes.get(_shown(one))))
            for one in everything
        ),
        *coordinator,
    ]


async def _stop_coordinator(pid: int) -> StoppedProcess:
    try:
        process = AdoptedProcess(pid)
    except ProcessLookupError:
        return StoppedProcess("coordinator", pid, CLEAN)
    process.send_signal(signal.SIGTERM)
    try:
        async with asyncio.timeout(COORDINATOR_S_MAX):
            await process.wait()
    except TimeoutError:
        process.close()
        raise StartError(
            f"The coordinator (pid {pid}) has not stopped within {COORDINATOR_S_MAX:.0f} s; its log says what it waits"
            f" for. `kill -9 {pid}` ends it, and `penstock cluster down` then stops its processes."
        ) from None
    return StoppedProcess("coordinator", pid, CLEAN)


def _outcome(code: int | None) -> str:
    """What the coordinator has reported of a process."""
    if code is None:
        return "ended without a report; its log says how"
    return CLEAN if code == 0 else f"ended with {describe_exit(code)}"


def _shown(one: EarlierProcess) -> str:
    return METADATA if one.name == COORDINATOR else one.name
