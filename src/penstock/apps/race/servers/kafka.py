"""Apache Kafka as a runner: one KRaft node in plain java. Never tuned beyond what one node needs."""

from __future__ import annotations

import base64
import shutil
import uuid
from pathlib import Path

from penstock.apps.race.servers.installing import Missing, from_maven, prepared, run
from penstock.apps.race.servers.process import ServerProcess, free_port
from penstock.apps.race.servers.runner import Promise, Running

VERSION = "4.3.0"
ARTIFACTS = (f"org.apache.kafka:kafka_2.13:{VERSION}", "org.slf4j:slf4j-simple:1.7.36")
JVM = ("-Xms1g", "-Xmx1g", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35")
"""What Kafka's own start script sets."""
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
group.initial.rebalance.delay.ms=0
"""
FLUSHED = "log.flush.interval.messages=1\n"


class Kafka:
    name = "Kafka"

    def prepare(self) -> str:
        if shutil.which("java") is None:
            raise Missing("java is not installed")
        _formatted()
        return VERSION

    def start(self, home: Path, cpu: int, promise: Promise) -> Running:
        port = free_port()
        settings = _write_settings(home, port, promise)
        shutil.copytree(_formatted() / "data", home / "data")
        process = ServerProcess([*_java(), "kafka.Kafka", str(settings)], home, cpu)
        process.await_ready(lambda: "Kafka Server started" in process.tail())
        return Running(process, {"main": port})


def _java() -> list[str]:
    return ["java", *JVM, "-cp", f"{from_maven('kafka', ARTIFACTS)}/*"]


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

    return prepared("kafka-storage", VERSION, build)
