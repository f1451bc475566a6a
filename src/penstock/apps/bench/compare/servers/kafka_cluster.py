"""Three Apache Kafka brokers that are controllers as well, with their defaults."""

from __future__ import annotations

import base64
import shutil
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

from penstock.apps.bench.compare.servers.install import prepared, run
from penstock.apps.bench.compare.servers.kafka import FLUSHED, JVM, VERSION, Kafka, java_command
from penstock.apps.bench.compare.servers.launcher import BROKERS, RunningCluster
from penstock.apps.bench.harness.cluster import Cluster, PeerNode
from penstock.apps.bench.harness.process import ServerProcess, free_port
from penstock.core.model import Durability

HEAP = "2g"
STARTED = "Kafka Server started"
SETTINGS = """\
process.roles=broker,controller
node.id={node}
controller.quorum.voters={voters}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
group.initial.rebalance.delay.ms=0
log.segment.delete.delay.ms=1000
"""


@dataclass(frozen=True, slots=True)
class KafkaCluster:
    cpus: tuple[int, ...]
    name: str = "Kafka"

    @property
    def settings(self) -> dict[str, str]:
        return {
            f"java -Xms{HEAP} -Xmx{HEAP} {' '.join(JVM)}": "typical arguments from its operations page, with a heap of"
            " which three fit into the memory of this machine",
            "process.roles=broker,controller": "three KRaft nodes, each broker and controller",
            "group.initial.rebalance.delay.ms=0": "as in the server.properties that it ships",
            "log.segment.delete.delay.ms=1000": "each run deletes its topic",
            FLUSHED.strip(): "row 16: flushed by the in-sync replicas before the acknowledgement",
        }

    def prepare(self) -> str:
        version = Kafka().prepare()
        _formatted()
        return version

    def start(self, home: Path, cpu: int, durability: Durability) -> RunningCluster:
        del cpu  # three brokers use all of them
        ports = {number: (free_port(), free_port()) for number in range(1, BROKERS + 1)}
        members = {number: _member(home, number, ports, durability) for number in ports}
        cluster = Cluster(members, self.cpus, started_ns=time.perf_counter_ns())
        try:
            cluster.start_all()
        except BaseException:
            cluster.kill()
            raise
        return RunningCluster(cluster)


def _member(home: Path, number: int, ports: dict[int, tuple[int, int]], durability: Durability) -> PeerNode:
    own = home / f"broker-{number}"
    data_dir, (port, _) = own / "data", ports[number]
    shutil.copytree(_formatted() / f"broker-{number}" / "data", data_dir)
    settings = _write_settings(own, number, ports, durability)
    command = [*java_command(HEAP), "kafka.Kafka", str(settings)]
    return PeerNode(
        number, ("127.0.0.1", port), own, data_dir, command, _is_started, lambda: None
    )  # fmt: skip


def _is_started(process: ServerProcess) -> bool:
    return process.has_logged(STARTED)


def _write_settings(
    home: Path, number: int, ports: dict[int, tuple[int, int]], durability: Durability
) -> Path:
    settings, (port, control) = home / "server.properties", ports[number]
    voters = ",".join(f"{node}@127.0.0.1:{other}" for node, (_, other) in ports.items())
    content = SETTINGS.format(node=number, voters=voters, port=port, control=control, data=home / "data")
    settings.write_text(content + (FLUSHED if durability is Durability.FSYNC else ""))
    return settings


def _formatted() -> Path:
    """A directory with the formatted storage of the three empty nodes, created once."""

    def build(directory: Path) -> None:
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        ports = {number: (free_port(), free_port()) for number in range(1, BROKERS + 1)}
        for number in ports:
            own = directory / f"broker-{number}"
            own.mkdir()
            settings = _write_settings(own, number, ports, Durability.OS)
            command = (*java_command(HEAP), "kafka.tools.StorageTool", "format")
            run(*command, "-t", cluster, "-c", str(settings))

    return prepared("kafka-cluster-storage", f"{VERSION} {SETTINGS}", build)
