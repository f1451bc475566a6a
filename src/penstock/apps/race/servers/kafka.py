"""Apache Kafka as a runner: one KRaft node in plain java. Never tuned beyond what one node needs."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import uuid
from pathlib import Path

from penstock.apps.race.servers.installing import Missing, from_maven, prepared, run
from penstock.apps.race.servers.process import ServerProcess, free_port
from penstock.apps.race.servers.runner import Promise, Running

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
            f"java -Xms{_heap()} -Xmx{_heap()} {' '.join(JVM)}": "typical arguments of its operations page"
            + ("" if _heap() == HEAP else f", but a heap of {HEAP}, for which this machine is too small"),
            "process.roles=broker,controller": "one KRaft node",
            "offsets.topic.replication.factor=1, transaction.state.log.replication.factor=1, "
            "transaction.state.log.min.isr=1, share.coordinator.state.topic.replication.factor=1, "
            "share.coordinator.state.topic.min.isr=1": "one node",
            "group.initial.rebalance.delay.ms=0": "its own server.properties sets it",
            "broker.session.timeout.ms=3600000": "it is paused while another server runs",
            "log.segment.delete.delay.ms=1000": "the topic of a lap is deleted after it",
            FLUSHED.strip(): "row 3: flushed before it is acknowledged",
        }

    def prepare(self) -> str:
        if shutil.which("java") is None:
            raise Missing("java is not installed")
        _formatted()
        return f"{VERSION} on Java {_java_version()}"

    def start(self, home: Path, cpu: int, promise: Promise) -> Running:
        port = free_port()
        settings = _write_settings(home, port, promise)
        shutil.copytree(_formatted() / "data", home / "data")
        process = ServerProcess([*_java(), "kafka.Kafka", str(settings)], home, cpu)
        process.await_ready(lambda: "Kafka Server started" in process.tail())
        return Running(process, {"main": port})


def _java() -> list[str]:
    return ["java", f"-Xms{_heap()}", f"-Xmx{_heap()}", *JVM, "-cp", f"{from_maven('kafka', ARTIFACTS)}/*"]


def _java_version() -> str:
    told = subprocess.run(["java", "-version"], check=True, capture_output=True, text=True).stderr
    return told.split('"')[1]


def _heap() -> str:
    """The recommended heap, or that of Kafka's start script where memory is short."""
    memory_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return HEAP if memory_bytes >= MEMORY_BYTES_MIN else SMALL_HEAP


def tool_command(main_class: str, *words: str) -> list[str]:
    """One of Kafka's command-line tools. Raises Missing."""
    return ["java", "-cp", f"{from_maven('kafka-tools', TOOLS)}/*", main_class, *words]


def _write_settings(home: Path, port: int, promise: Promise) -> Path:
    settings = home / "server.properties"
    content = SETTINGS.format(port=port, control=free_port(), home=home)
    settings.write_text(content + (FLUSHED if promise is Promise.FSYNC else ""))
    return settings


def _formatted() -> Path:
    """A directory whose `data` is an empty node's, made once: a Java machine only for that takes a second each time."""

    def build(room: Path) -> None:
        settings = _write_settings(room, free_port(), Promise.OS)
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        run(*_java(), "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings))

    return prepared("kafka-storage", f"{VERSION} {SETTINGS}", build)
