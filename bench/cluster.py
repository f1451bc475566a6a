"""`penstock cluster up` and the processes that it runs, observed from outside: ready, CPU time, memory."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.session import Session
from penstock.apps.bench.harness.link import Address
from penstock.apps.bench.harness.loader import Loader
from penstock.apps.bench.harness.process import CpuTime, ServerProcess, cpu_clock_s

POLL_S = 0.002
ALONE = ("--no-services", "--api-port", "off", "--console-port", "off", "--die-with-parent")
UP = ("cluster", "up", "--no-console", *ALONE, "--base-port", "0", "--brokers")
CORES = ("start", "--port", "0", "--cores")


class RunningBroker(NamedTuple):
    """One broker of a cluster."""

    node_id: int
    pid: int
    address: Address
    ports: Mapping[str, int]
    """The port of each open door, by its name."""


class ClusterProcess:
    """One local cluster on one directory; may be started again after `stop`. `flags` have `_` in place of `-`."""

    def __init__(
        self,
        home: Path,
        cpus: Sequence[int],
        brokers: int,
        flags: Mapping[str, str | int],
        words: Sequence[str] = UP,
    ) -> None:
        """`words`: the command without the number of brokers, which follows."""
        self.home = home
        self._cpus = cpus
        self._count = brokers
        self._words = words
        self._flags = flags
        self._ready_path = home / "ready.json"
        self._process: ServerProcess | None = None
        self.brokers: list[RunningBroker] = []
        self.coordinator_pid = 0

    def start(self) -> float:
        """Start and wait until all brokers are ready; returns the milliseconds from exec. Raises ServerFailed."""
        assert self._process is None, "the cluster is already running"
        self._ready_path.unlink(missing_ok=True)
        command = [sys.executable, "-m", "penstock", *self._words, str(self._count)]
        command += ["--data-dir", str(self.home / "data"), "--ready-file", str(self._ready_path)]
        for name, value in self._flags.items():
            command += ["--" + name.replace("_", "-"), str(value)]
        self._process = ServerProcess(command, self.home, *self._cpus)
        self._process.await_ready(self._ready_path.exists, POLL_S)
        ready_ms = (time.perf_counter_ns() - self._process.started_ns) / 1e6
        ready = json.loads(self._ready_path.read_text())
        self.coordinator_pid = ready["coordinator"]["pid"]
        self.brokers = [_broker(one) for one in ready["brokers"]]
        return ready_ms

    def leader(self, topic: str) -> RunningBroker:
        """The broker that leads partition 0; creates the topic if it does not exist."""
        with Loader(self.brokers[0].address) as loader:
            node_id = loader.leaders([topic])[topic][0]
        leader = self.brokers[node_id - 1]
        assert leader.node_id == node_id
        return leader

    @contextmanager
    def cpu_time(self) -> Iterator[CpuTime]:
        """CPU time of all brokers within the block."""
        spent, before_s = CpuTime(), self.cpu_s()
        yield spent
        spent.cpu_s = self.cpu_s() - before_s

    def cpu_s(self) -> float:
        """CPU time of all brokers so far, without that of the coordinator."""
        return sum(cpu_clock_s(broker.pid) for broker in self.brokers)

    def cpu_of_all_s(self) -> float:
        """CPU time of brokers, coordinator and command so far."""
        assert self._process is not None, "the cluster is not running"
        return self.cpu_s() + cpu_clock_s(self.coordinator_pid) + self._process.cpu_s()

    def await_restart(self, node_id: int) -> None:
        """Wait until the supervisor has started a killed broker again."""
        assert self._process is not None, "the cluster is not running"
        path, dead = self.home / "data" / "run" / f"broker-{node_id}.json", self.brokers[node_id - 1].pid

        def is_ready() -> bool:
            return (
                path.exists()
                and (read := path.read_text()).endswith("}\n")
                and json.loads(read)["pid"] != dead
            )

        self._process.await_ready(is_ready, POLL_S)
        self.brokers[node_id - 1] = self.brokers[node_id - 1]._replace(
            pid=json.loads(path.read_text())["pid"]
        )

    def stop(self) -> None:
        """Stop cleanly. Raises ServerFailed."""
        assert self._process is not None, "the cluster is not running"
        process, self._process = self._process, None
        process.stop()

    def close(self) -> None:
        """Stop the cluster if it is running: its processes outlive a killed command for a moment."""
        if self._process is not None:
            self.stop()


def _broker(ready: dict[str, object]) -> RunningBroker:
    ports = {
        name.removesuffix("_port"): int(str(port)) for name, port in ready.items() if name.endswith("_port")
    }
    return RunningBroker(
        int(str(ready["node_id"])),
        int(str(ready["pid"])),
        (str(ready["host"]), int(str(ready["port"]))),
        ports,
    )


@contextmanager
def stopped_cluster(
    session: Session, brokers: int, *cpus: int, words: Sequence[str] = UP, **flags: str | int
) -> Iterator[ClusterProcess]:
    """A cluster on a new directory that the row starts itself; all its processes run on these CPUs."""
    with session.home() as home:
        cluster = ClusterProcess(home, cpus, brokers, flags, words)
        try:
            yield cluster
        finally:
            cluster.close()
