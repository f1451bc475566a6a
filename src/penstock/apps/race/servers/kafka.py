"""Apache Kafka as a runner: one KRaft node in plain java. Never tuned beyond what one node needs."""

from __future__ import annotations

import base64
import shutil
import subprocess
import uuid
from pathlib import Path

from penstock.apps.race.servers.installing import Missing, from_maven
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
        from_maven("kafka", ARTIFACTS)
        return VERSION

    def start(self, home: Path, cpu: int, promise: Promise) -> Running:
        java = ["java", *JVM, "-cp", f"{from_maven('kafka', ARTIFACTS)}/*"]
        port = free_port()
        settings = home / "server.properties"
        content = SETTINGS.format(port=port, control=free_port(), home=home)
        settings.write_text(content + (FLUSHED if promise is Promise.FSYNC else ""))
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        storage = [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(settings)]
        subprocess.run(storage, check=True, capture_output=True)
        process = ServerProcess([*java, "kafka.Kafka", str(settings)], home, cpu)
        process.await_ready(lambda: "Kafka Server started" in process.tail())
        return Running(process, {"main": port})
