"""Runs a command against a real Apache Kafka: one node on loopback, thrown away afterwards.

    PYTHONPATH=tests python -m compat.reference pytest tests/compat

Never part of the suite itself: it is how the suite's expectations are checked to be Kafka's own.
"""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compat.runtimes import maven_jars

READY_S_MAX = 60.0
STOP_S_MAX = 20.0
POLL_S = 0.1
JVM = ["-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
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
offsets.topic.num.partitions=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def await_ready(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    deadline = time.monotonic() + READY_S_MAX
    while time.monotonic() < deadline and process.poll() is None:
        if is_listening(port) and "Kafka Server started" in log.read_text():
            return
        time.sleep(POLL_S)
    raise RuntimeError(f"Kafka did not start\n{log.read_text()[-4000:]}")


class ReferenceKafka:
    """One Kafka on one data directory and one port. Speaks the verbs of penstock.testing.Broker."""

    def __init__(self, home: Path, settings: str = "") -> None:
        self._home, self._port = home, free_port()
        self._settings, self._log = home / "server.properties", home / "server.log"
        self._java = ["java", *JVM, "-cp", f"{maven_jars(Path(__file__).with_name('pom.xml'))}/*"]
        self._process: subprocess.Popen[bytes] | None = None
        common = SETTINGS.format(port=self._port, control=free_port(), home=home)
        self._settings.write_text(common + settings)
        cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        storage = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(self._settings)]
        subprocess.run([*self._java, *storage], check=True, capture_output=True)

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        with self._log.open("wb") as output:
            command = [*self._java, "kafka.Kafka", str(self._settings)]
            self._process = subprocess.Popen(command, stdout=output, stderr=output)
        await_ready(self._process, self._port, self._log)

    def kill(self) -> None:
        """kill -9."""
        assert self._process is not None
        self._process.kill()
        self._process.wait()

    def stop(self) -> None:
        assert self._process is not None
        self._process.terminate()
        try:
            self._process.wait(STOP_S_MAX)
        except subprocess.TimeoutExpired:
            self.kill()


@contextmanager
def reference_kafka(settings: str = "") -> Iterator[ReferenceKafka]:
    """A Kafka that runs and may be killed and started again; it ends with the block."""
    with tempfile.TemporaryDirectory(prefix="reference-kafka-") as scratch:
        kafka = ReferenceKafka(Path(scratch), settings)
        try:
            kafka.start()
            yield kafka
        finally:
            kafka.stop()


@contextmanager
def running_kafka() -> Iterator[str]:
    """host:port of a Kafka that ends with the block."""
    with reference_kafka() as kafka:
        yield kafka.bootstrap


def main(command: list[str]) -> int:
    with running_kafka() as bootstrap:
        environment = {**os.environ, "PENSTOCK_COMPAT_BOOTSTRAP": bootstrap}
        return subprocess.run(command, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
