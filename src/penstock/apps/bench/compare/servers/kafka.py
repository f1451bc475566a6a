"""Apache Kafka: one KRaft node, with the settings that a single node needs and no other tuning."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import uuid
from pathlib import Path

from penstock.apps.bench.compare.servers.install import CannotInstall, from_maven, prepared, run
from penstock.apps.bench.compare.servers.launcher import RunningServer
from penstock.apps.bench.harness.process import ServerProcess, free_port
from penstock.core.model import Durability

VERSION = "4.3.1"
LOGGING = "org.slf4j:slf4j-simple:1.7.36"
ARTIFACTS = (f"org.apache.kafka:kafka_2.13:{VERSION}", LOGGING)
TOOLS = (f"org.apache.kafka:kafka-tools:{VERSION}", LOGGING)
MEMORY_BYTES_MIN = 16 << 30
HEAP, SMALL_HEAP = "6g", "1g"
JVM = (
    "-server",
    "-XX:MetaspaceSize=96m",
    "-XX:+UseG1GC",
    "-XX:MaxGCPauseMillis=20",
    "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:G1HeapRegionSize=16M",
    "-XX:MinMetaspaceFreeRatio=50",
    "-XX:MaxMetaspaceFreeRatio=80",
    "-XX:+ExplicitGCInvokesConcurrent",
)
"""Typical arguments of Kafka's operations page."""
SETTINGS = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{control}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{control}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs={home}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
broker.session.timeout.ms=3600000
log.segment.delete.delay.ms=1000
"""
FLUSHED = "log.flush.interval.messages=1\n"


class Kafka:
    name = "Kafka"

    @property
    def settings(self) -> dict[str, str]:
        return {
            f"java -Xms{_heap()} -Xmx{_heap()} {' '.join(JVM)}": "typical arguments from its operations page"
            + (
                ""
                if _heap() == HEAP
                else f", but with a smaller heap than {HEAP}: this machine has too little memory"
            ),
            "process.roles=broker,controller": "one KRaft node",
            "offsets.topic.replication.factor=1, transaction.state.log.replication.factor=1, "
            "transaction.state.log.min.isr=1, share.coordinator.state.topic.replication.factor=1, "
            "share.coordinator.state.topic.min.isr=1": "one node",
            "group.initial.rebalance.delay.ms=0": "as in the server.properties that it ships",
            "broker.session.timeout.ms=3600000": "it is paused while another server runs",
            "log.segment.delete.delay.ms=1000": "each run deletes its topic",
            FLUSHED.strip(): "row 3: flushed before the acknowledgement",
        }

    def prepare(self) -> str:
        if shutil.which("java") is None:
            raise CannotInstall("java is not installed")
        _formatted()
        return f"{VERSION} on Java {_java_version()}"

    def start(self, home: Path, cpu: int, durability: Durability) -> RunningServer:
        port = free_port()
        settings = _write_settings(home, port, durability)
        shutil.copytree(_formatted() / "data", home / "data")
        process = ServerProcess([*java_command(_heap()), "kafka.Kafka", str(settings)], home, cpu)
        process.await_ready(lambda: "Kafka Server started" in process.log_tail())
        return RunningServer(process, {"main": port})


def java_command(heap: str) -> list[str]:
    """The command of a program of Kafka's, without its main class. Raises CannotInstall."""
    return ["java", f"-Xms{heap}", f"-Xmx{heap}", *JVM, "-cp", f"{from_maven('kafka', ARTIFACTS)}/*"]


def _java_version() -> str:
    output = subprocess.run(["java", "-version"], check=True, capture_output=True, text=True).stderr
    return output.split('"')[1]


def _heap() -> str:
    """The recommended heap, or that of Kafka's start script on machines with little memory."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return HEAP if memory_bytes >= MEMORY_BYTES_MIN else SMALL_HEAP


def tool_command(main_class: str, *arguments: str) -> list[str]:
    """The command of one of Kafka's own tools. Raises CannotInstall."""
    return ["java", "-cp", f"{from_maven('kafka-tools', TOOLS)}/*", main_class, *arguments]


def _write_settings(home: Path, port: int, durability: Durability) -> Path:
    settings = home / "server.properties"
    content = SETTINGS.format(port=port, control=free_port(), home=home)
    settings.write_text(content + (FLUSHED if durability is Durability.FSYNC else ""))
    return settings


def _formatted() -> Path:
    """A directory with the formatted storage of an empty node, created once: starting a JVM for it takes a second."""

    def build(directory: Path) -> None:
        settings = _write_settings(directory, free_port(), Durability.OS)
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        run(*java_command(_heap()), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings))

    return prepared("kafka-storage", f"{VERSION} {SETTINGS}", build)
