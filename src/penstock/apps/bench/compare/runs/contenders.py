"""The brokers of the comparison and the drivers that each of them is measured with."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

from penstock.apps.bench.compare.drivers.amqp import QuorumDriver
from penstock.apps.bench.compare.drivers.driver import StreamDriver, WorkDriver, WriteDriver
from penstock.apps.bench.compare.drivers.kafka import KafkaDriver
from penstock.apps.bench.compare.drivers.nats import NatsDriver
from penstock.apps.bench.compare.drivers.queue import QueueDriver
from penstock.apps.bench.compare.drivers.rabbit_stream import RabbitStreamDriver
from penstock.apps.bench.compare.drivers.redis import RedisDriver
from penstock.apps.bench.compare.drivers.share import ShareDriver
from penstock.apps.bench.compare.servers.kafka import Kafka
from penstock.apps.bench.compare.servers.kafka_cluster import KafkaCluster
from penstock.apps.bench.compare.servers.launcher import RunningServer, ServerLauncher
from penstock.apps.bench.compare.servers.nats import Nats
from penstock.apps.bench.compare.servers.penstock import Penstock
from penstock.apps.bench.compare.servers.penstock_cluster import PenstockCluster
from penstock.apps.bench.compare.servers.rabbitmq import RabbitMq
from penstock.apps.bench.compare.servers.redis import Redis
from penstock.apps.bench.harness.link import Address


class MakeStreamDriver(Protocol):
    def __call__(self, address: Address, size: int, stream: str, /) -> StreamDriver: ...


class MakeWriteDriver(Protocol):
    def __call__(self, address: Address, size: int, stream: str, /) -> WriteDriver: ...


class MakeWorkDriver(Protocol):
    def __call__(self, address: Address, size: int, stream: str, /) -> WorkDriver: ...


class Contender(NamedTuple):
    """One broker: its launcher, and its drivers for streams, for writes flushed when acknowledged, and for work."""

    launcher: ServerLauncher
    stream: MakeStreamDriver
    flushed: MakeWriteDriver
    work: MakeWorkDriver
    client: str
    """Script in `clients` that uses the broker's own Python client."""
    stream_door: str = "main"
    work_door: str = "main"

    def stream_driver(self, started: RunningServer, size: int, stream: str) -> StreamDriver:
        return self.stream(started.address(self.stream_door), size, stream)

    def flushed_driver(self, started: RunningServer, size: int, stream: str) -> WriteDriver:
        return self.flushed(started.address(), size, stream)

    def work_driver(self, started: RunningServer, size: int, stream: str) -> WorkDriver:
        return self.work(started.address(self.work_door), size, stream)


def penstock_contender(launcher: Penstock) -> Contender:
    return Contender(launcher, KafkaDriver, KafkaDriver, QueueDriver, "confluent", work_door="queue")


def baseline_contender(python: Path) -> Contender:
    """Another version of Penstock, installed in the environment of that interpreter."""
    # Not resolved: the interpreter of an environment is a symlink to one outside of it.
    return penstock_contender(Penstock(BASELINE, str(python.absolute())))


OURS, BASELINE = "Penstock", "Baseline"
CONTENDERS = (
    penstock_contender(Penstock()),
    Contender(Kafka(), KafkaDriver, KafkaDriver, ShareDriver, "confluent"),
    Contender(Nats(), NatsDriver, NatsDriver, NatsDriver, "nats_py"),
    Contender(Redis(), RedisDriver, RedisDriver, RedisDriver, "redis_py"),
    Contender(RabbitMq(), RabbitStreamDriver, QuorumDriver, QuorumDriver, "rstream_py", stream_door="stream"),
)


def cluster_contender(contender: Contender, cpus: tuple[int, ...]) -> Contender | None:
    """The same broker as a cluster of three; None if no row over clusters supports it."""
    launcher = contender.launcher
    if isinstance(launcher, Penstock):
        return contender._replace(launcher=PenstockCluster(cpus, launcher.name, launcher.python))
    return contender._replace(launcher=KafkaCluster(cpus)) if isinstance(launcher, Kafka) else None
