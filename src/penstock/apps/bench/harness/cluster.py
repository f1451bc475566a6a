"""A cluster of broker processes: each can be killed, stopped and started again while the others run.

Clients of the measurements see only the brokers; a process that stores the metadata belongs to the cluster as well,
and so does its CPU time.
"""

from __future__ import annotations

import os
import resource
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from penstock.apps.bench.harness.cluster_state import await_whole
from penstock.apps.bench.harness.link import Address, UnexpectedResponse
from penstock.apps.bench.harness.process import CpuTime, ServerFailed, ServerProcess

READY_POLL_S = 0.02


@dataclass(slots=True)
class PeerNode:
    """One broker: how it is started, and its process while it runs."""

    node_id: int
    address: Address
    home: Path
    """The working directory and output of its process."""
    data_dir: Path
    command: Sequence[str]
    is_ready: Callable[[ServerProcess], bool]
    before_start: Callable[[], None]
    process: ServerProcess | None = None
    _starts: int = 0

    @property
    def name(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def start(self, cpus: Sequence[int]) -> None:
        """Start the process; does not wait until it is ready."""
        assert self.process is None, f"broker {self.node_id} is already running"
        self.before_start()
        self._starts += 1
        home = self.home / f"start-{self._starts:03d}"
        home.mkdir(parents=True)
        self.process = ServerProcess(self.command, home, *cpus)

    def await_ready(self) -> None:
        """Raises ServerFailed."""
        process = self.running
        process.await_ready(lambda: self.is_ready(process), READY_POLL_S)

    @property
    def running(self) -> ServerProcess:
        assert self.process is not None, f"broker {self.node_id} is not running"
        return self.process

    def log_bytes(self) -> int:
        """Size of all segments of the broker."""
        found = 0
        for path in self.data_dir.rglob("*.log"):
            try:
                found += path.stat().st_size
            except FileNotFoundError:  # deleted by retention, or with its topic
                continue
        return found


@dataclass(slots=True)
class Cluster:
    """The brokers of one cluster, and the process that stores its metadata if there is one. Has the verbs of a
    `ServerProcess`, for all of them together."""

    members: dict[int, PeerNode]
    cpus: tuple[int, ...]
    store: ServerProcess | None = None
    started_ns: int = 0
    _ended_cpu_s: float = 0.0
    _paused: bool = field(default=False)

    @property
    def bootstrap(self) -> str:
        return ",".join(one.name for one in self.members.values())

    @property
    def addresses(self) -> list[Address]:
        return [one.address for one in self.members.values()]

    def start_all(self) -> None:
        """Start all brokers in parallel, and wait until they are one cluster. Raises ServerFailed."""
        for member in self.members.values():
            member.start(self.cpus)
        for member in self.members.values():
            member.await_ready()
        self.await_whole()

    def await_whole(self) -> None:
        """Wait until all brokers are in the cluster and all replicas in sync. Raises ServerFailed."""
        try:
            await_whole(self.addresses)
        except UnexpectedResponse as error:
            raise ServerFailed(str(error)) from error

    def other_than(self, node_id: int) -> PeerNode:
        """A broker that is running, and is not this one."""
        return next(
            one for one in self.members.values() if one.node_id != node_id and one.process is not None
        )

    def kill(self, node_id: int | None = None) -> None:
        """kill -9 of one broker, or of everything."""
        if node_id is not None:
            self._end(self.members[node_id], ServerProcess.kill)
            return
        for member in self.members.values():
            if member.process is not None:
                self._end(member, ServerProcess.kill)
        if self.store is not None:
            self.store.kill()

    def strike(self, node_id: int) -> int:
        """kill -9 of one broker; returns when the signal was sent, by the monotonic clock. Its end takes longer."""
        os.kill(self.members[node_id].running.pid, signal.SIGKILL)
        struck_ns = time.monotonic_ns()
        self.kill(node_id)
        return struck_ns

    def stop(self, node_id: int) -> None:
        """SIGTERM, and wait for a clean exit. Raises ServerFailed."""
        self._end(self.members[node_id], ServerProcess.stop)

    def _end(self, member: PeerNode, end: Callable[[ServerProcess], None]) -> None:
        process, member.process = member.running, None
        before_s = _children_cpu_s()
        end(process)
        self._ended_cpu_s += _children_cpu_s() - before_s

    def start(self, node_id: int) -> None:
        """Start a broker that was killed or stopped; does not wait until it is ready."""
        self.members[node_id].start(self.cpus)

    # -- the verbs of a process

    def _processes(self) -> list[ServerProcess]:
        found = [one.process for one in self.members.values() if one.process is not None]
        return found if self.store is None else [*found, self.store]

    @property
    def is_running(self) -> bool:
        return all(one.process is not None and one.process.is_running for one in self.members.values())

    def pause(self) -> None:
        for process in self._processes():
            process.pause()
        self._paused = True

    def resume(self) -> None:
        """Continue all processes, and wait until they are one cluster again: sessions may have expired meanwhile."""
        for process in self._processes():
            process.resume()
        if self._paused:
            self._paused = False
            self.await_whole()

    def cpu_s(self) -> float:
        """CPU time of all processes so far, including those that were ended."""
        return self._ended_cpu_s + sum(process.cpu_s() for process in self._processes())

    @contextmanager
    def cpu_time(self) -> Iterator[CpuTime]:
        """CPU time of all processes within the block."""
        spent, before_s = CpuTime(), self.cpu_s()
        yield spent
        spent.cpu_s = self.cpu_s() - before_s

    def resident_mb(self) -> float:
        return sum(process.resident_mb() for process in self._processes())


def _children_cpu_s() -> float:
    """CPU time of all children that were waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
