"""Three Penstock brokers and the coordinator that stores their metadata, with the defaults of a local cluster."""

from __future__ import annotations

import json
import sys
import time
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from penstock.apps.bench.compare.servers.launcher import BROKERS, RunningCluster
from penstock.apps.bench.compare.servers.penstock import UNUSED_DOORS, Penstock
from penstock.apps.bench.harness.cluster import Cluster, PeerNode
from penstock.apps.bench.harness.process import ServerProcess, free_port
from penstock.core.model import Durability
from penstock.node.cluster.metadata_target import CoordinatorTarget
from penstock.node.connections.addresses import Address

READY_POLL_S = 0.002


@dataclass(frozen=True, slots=True)
class PenstockCluster:
    """`python` is the interpreter of the environment that the measured version is installed in."""

    cpus: tuple[int, ...]
    name: str = "Penstock"
    python: str = sys.executable

    @property
    def settings(self) -> dict[str, str]:
        return {
            "--metadata coordinator://…": "three brokers and a coordinator, as `penstock cluster up` runs them",
            "--durability os": "acknowledged once the operating systems of the in-sync replicas have the record",
            "--durability fsync": "row 16: flushed by the in-sync replicas before the acknowledgement; its default",
            "--text-port off --json-port off --http-port off --queue-port off": "no row uses them",
        }

    def prepare(self) -> str:
        return Penstock(self.name, self.python).prepare()

    def start(self, home: Path, cpu: int, durability: Durability) -> RunningCluster:
        del cpu  # three brokers use all of them
        started_ns = time.perf_counter_ns()
        store, target = self._start_coordinator(home)
        members = {number: self._member(home, number, target, durability) for number in range(1, BROKERS + 1)}
        cluster = Cluster(members, self.cpus, store, started_ns)
        try:
            cluster.start_all()
        except BaseException:
            cluster.kill()
            raise
        return RunningCluster(cluster)

    def _start_coordinator(self, home: Path) -> tuple[ServerProcess, CoordinatorTarget]:
        own, ready_file = home / "coordinator", home / "coordinator.json"
        own.mkdir()
        command = [self.python, "-m", "penstock.apps.coordinator", f"--data-dir={own / 'data'}"]
        process = ServerProcess([*command, f"--ready-file={ready_file}"], own, *self.cpus)
        process.await_ready(ready_file.exists, READY_POLL_S)
        ready = json.loads(ready_file.read_text())
        return process, CoordinatorTarget(Address(ready["host"], ready["port"]), ready["secret_file"])

    def _member(self, home: Path, number: int, target: CoordinatorTarget, durability: Durability) -> PeerNode:
        own, port = home / f"broker-{number}", free_port()
        ready_file, data_dir = own / "ready.json", own / "data"
        flags = {
            "node_id": number, "port": port, "metadata": target.url, "durability": durability.value,
            "data_dir": data_dir, "ready_file": ready_file, **UNUSED_DOORS, "queue_port": "off",
        }  # fmt: skip
        command = [self.python, "-m", "penstock", "start"]
        command += [f"--{name.replace('_', '-')}={value}" for name, value in flags.items()]
        return PeerNode(
            number, ("127.0.0.1", port), own, data_dir, command,
            lambda _process: ready_file.exists(), partial(ready_file.unlink, missing_ok=True),
        )  # fmt: skip
