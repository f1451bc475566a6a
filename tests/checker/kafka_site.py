"""Apache Kafka under the same load and faults: KRaft nodes that are broker and controller, each in a small JVM.

Storage is formatted once per machine and cluster size, and copied. Its durability is that of Penstock's default: a
flush before every acknowledgement.
"""

from __future__ import annotations

import base64
import shutil
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

from checker.network import HostNetwork
from checker.site import CLOCK, LAG_MS, QUEUE_DOOR, SESSION_MS, STORE, Site, SiteBroker
from checker.store import READY_S_MAX, NoStore
from penstock.apps.bench.compare.servers.install import from_maven, prepared, run
from penstock.apps.bench.compare.servers.kafka import ARTIFACTS, FLUSHED, VERSION
from penstock.apps.bench.harness.process import free_port
from penstock.testing import BrokerDied
from penstock.testing.child_server import ChildServer

JVM = ("-Xms128m", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
POLL_S = 0.05
STARTED = "Kafka Server started"
LACKS = {
    STORE: "Kafka stores its metadata in its own brokers",
    CLOCK: "the clock of a JVM cannot be moved from outside",
    QUEUE_DOOR: "Kafka has no queue door",
}
SETTINGS = """\
process.roles=broker,controller
node.id={node_id}
controller.quorum.voters={voters}
listeners=PLAINTEXT://{host}:{port},CONTROLLER://{host}:{control}
advertised.listeners=PLAINTEXT://{host}:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={data}
default.replication.factor={rf}
min.insync.replicas={min_isr}
offsets.topic.replication.factor={rf}
offsets.topic.num.partitions=4
transaction.state.log.replication.factor={rf}
transaction.state.log.num.partitions=4
transaction.state.log.min.isr={min_isr}
share.coordinator.state.topic.replication.factor={rf}
share.coordinator.state.topic.min.isr={min_isr}
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms={session_ms}
broker.heartbeat.interval.ms=500
replica.lag.time.max.ms={lag_ms}
log.cleaner.dedupe.buffer.size=8388608
"""
"""As short a session as Penstock's, and the same replicas. The log cleaner's usual buffer does not fit the heap."""


def java() -> list[str]:
    return ["java", *JVM, "-cp", f"{from_maven('kafka', ARTIFACTS)}/*"]


class KafkaBroker(ChildServer):
    """One node. Keeps its ports across restarts."""

    noun = "kafka"
    ready_s_max = READY_S_MAX

    def __init__(self, node_id: int, home: Path, network: HostNetwork | None) -> None:
        self.node_id = node_id
        self.host_name = f"broker-{node_id}"
        super().__init__(home / self.host_name)
        self.host = "127.0.0.1" if network is None else network.address(self.host_name)
        self.port, self.control_port = free_port(), free_port()
        if network is not None:
            self.wrapper = network.wrapper(self.host_name)
        self.settings = self.home / "server.properties"
        self._log_bytes = 0

    @property
    def bootstrap(self) -> str:
        return f"{self.host}:{self.port}"

    def launch(self) -> None:
        self._log_bytes = self.log_path.stat().st_size if self.log_path.exists() else 0
        super().launch()

    def await_ready(self) -> None:
        process = self._running()
        deadline_s = time.monotonic() + self.ready_s_max
        while time.monotonic() < deadline_s:
            if process.poll() is not None:
                self._process = None
                raise BrokerDied(f"{self.host_name} exited before it was ready\n{self._tail()}")
            with self.log_path.open("rb") as log:
                log.seek(self._log_bytes)
                if STARTED.encode() in log.read():
                    return
            time.sleep(POLL_S)
        self.kill()
        raise BrokerDied(f"{self.host_name} is not ready within {self.ready_s_max} s\n{self._tail()}")

    def close(self) -> None:
        """How it leaves is no part of the run."""
        process, self._process = self._process, None
        if process is None:
            return
        code = process.poll()
        process.kill()
        process.wait()
        if code is not None:
            raise BrokerDied(f"{self.host_name} exited unexpectedly, exit code {code}\n{self._tail()}")

    def skew(self, skew_ms: int) -> None:
        raise AssertionError(LACKS[CLOCK])

    def write_settings(self, voters: str, rf: int, min_isr: int) -> None:
        self.home.mkdir(parents=True, exist_ok=True)
        content = SETTINGS.format(
            node_id=self.node_id,
            voters=voters,
            host=self.host,
            port=self.port,
            control=self.control_port,
            data=self.data_dir / "log",
            rf=rf,
            min_isr=min_isr,
            session_ms=SESSION_MS,
            lag_ms=LAG_MS,
        )
        self.settings.write_text(content + FLUSHED)

    def start(self) -> None:
        """The first start copies the formatted storage; the data directory may be a disk of its own by then."""
        if not (self.data_dir / "log").exists():
            shutil.copytree(formatted(self.node_id), self.data_dir / "log")
        super().start()

    def _command_line(self) -> list[str]:
        return [*java(), "kafka.Kafka", str(self.settings)]

    def _set_ready(self, ready: dict[str, object]) -> None:
        raise AssertionError("Kafka writes no ready file")


class KafkaSite(Site):
    failures = ("java.lang.OutOfMemoryError",)
    survives_disks = False

    def __init__(self, home: Path, nodes: int, rf: int, min_isr: int, wanted: Sequence[str] = ()) -> None:
        super().__init__(home, nodes, (), wanted)
        self._rf, self._min_isr = rf, min_isr
        self.lacks |= LACKS

    def partition_dir(self, broker: SiteBroker, topic: str, topic_id: bytes, partition: int) -> Path:
        return broker.data_dir / "log" / f"{topic}-{partition}"

    def _make_store(self) -> NoStore:
        return NoStore()

    def _make_brokers(self) -> list[KafkaBroker]:
        brokers = [KafkaBroker(number, self.home, self.network) for number in range(1, self.nodes + 1)]
        voters = ",".join(f"{one.node_id}@{one.host}:{one.control_port}" for one in brokers)
        for one in brokers:
            one.write_settings(voters, self._rf, self._min_isr)
            formatted(one.node_id)
        return brokers


def formatted(node_id: int) -> Path:
    """The storage of an empty node, with the same cluster id for all of them."""

    def build(directory: Path) -> None:
        settings = directory / "server.properties"
        voters = f"{node_id}@127.0.0.1:9093"
        settings.write_text(
            SETTINGS.format(
                node_id=node_id,
                voters=voters,
                host="127.0.0.1",
                port=9092,
                control=9093,
                data=directory / "log",
                rf=1,
                min_isr=1,
                session_ms=SESSION_MS,
                lag_ms=LAG_MS,
            )
        )
        cluster = base64.urlsafe_b64encode(uuid.uuid5(uuid.NAMESPACE_DNS, "chaos").bytes).decode().rstrip("=")
        run(*java(), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings))

    return prepared(f"kafka-chaos-{node_id}", f"{VERSION} {node_id} {SETTINGS}", build) / "log"
