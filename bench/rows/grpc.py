"""Records through the gRPC services, with the CPU time of the service beside that of a direct librdkafka client."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from bench.figures import Figure, at_least, figure
from bench.grpc_client import VALUE_BYTES, run_grpc_client
from bench.rdkafka_client import VALUE_SIZE, run_client
from bench.session import TOPIC, Session
from penstock.apps.bench.harness.broker import BrokerProcess
from penstock.apps.bench.harness.loader import Loader
from penstock.apps.bench.harness.process import ServerProcess

RATE_MIN = 100_000
BATCH = 100
READ_BATCH = 1_000
PARTITIONS = 3
WARM_UP = 20_000


def measure_publish(session: Session) -> list[Figure]:
    count = session.pick(1_000_000, 100_000)
    rates: list[float] = []
    costs_us: list[float] = []
    direct_us: list[float] = []
    with (
        session.broker(storage="memory", default_partitions=PARTITIONS) as broker,
        _service(session, broker, "producer-service") as service,
    ):
        _create(broker)
        run_grpc_client("publish", service[1], TOPIC, WARM_UP, BATCH)
        for _ in range(session.pick(5, 3)):
            session.step("records through the producer service, and directly")
            with service[0].cpu_time() as spent:
                done = run_grpc_client("publish", service[1], TOPIC, count, BATCH)
            rates.append(count / done.seconds)
            costs_us.append(spent.cpu_s / count * 1e6)
            settings = {VALUE_SIZE: VALUE_BYTES}
            direct = run_client(
                session.cpus.loader, "produce", broker.bootstrap, TOPIC, count, PARTITIONS, settings
            )
            direct_us.append(direct.cpu_s / count * 1e6)
    client = f"a direct client: {figure('direct', '', direct_us, '').value:.1f} µs"
    return [
        figure(
            f"records through the producer service, batches of {BATCH}",
            "records/s",
            rates,
            f"{VALUE_BYTES}-byte values, broker in memory, one client process",
            at_least(RATE_MIN),
        ),
        figure("producer service CPU of one such record", "µs", costs_us, client),
    ]


def measure_subscribe(session: Session) -> list[Figure]:
    count = session.pick(1_000_000, 100_000)
    rates: list[float] = []
    costs_us: list[float] = []
    direct_us: list[float] = []
    for _ in range(session.pick(3, 2)):
        session.step("records from the consumer service, and directly")
        with (
            session.broker(storage="memory", default_partitions=PARTITIONS) as broker,
            _service(session, broker, "consumer-service") as service,
        ):
            _create(broker)
            settings = {VALUE_SIZE: VALUE_BYTES}
            where = (session.cpus.loader, "produce", broker.bootstrap, TOPIC, count, PARTITIONS)
            run_client(*where, settings)
            with service[0].cpu_time() as spent:
                done = run_grpc_client("subscribe", service[1], TOPIC, count, READ_BATCH)
            rates.append(count / done.seconds)
            costs_us.append(spent.cpu_s / count * 1e6)
            direct = run_client(session.cpus.loader, "consume", broker.bootstrap, TOPIC, count, PARTITIONS)
            direct_us.append(direct.cpu_s / count * 1e6)
    client = f"a direct client: {figure('direct', '', direct_us, '').value:.1f} µs"
    return [
        figure(
            "records from the consumer service, one stream",
            "records/s",
            rates,
            f"batches of up to {READ_BATCH}, each confirmed; one client process",
            at_least(RATE_MIN),
        ),
        figure("consumer service CPU of one such record", "µs", costs_us, client),
    ]


@contextmanager
def _service(session: Session, broker: BrokerProcess, kind: str) -> Iterator[tuple[ServerProcess, str]]:
    """A running service and its address."""
    with session.home() as home:
        ready = home / "ready.json"
        command = [sys.executable, "-m", "penstock", kind, "--port", "0", "--ready-file", str(ready)]
        process = ServerProcess(
            [*command, "--bootstrap", broker.bootstrap], home, *{session.cpus.server, session.cpus.loader}
        )
        try:
            process.await_ready(ready.exists)
            yield process, f"127.0.0.1:{json.loads(ready.read_text())['port']}"
        finally:
            process.kill()


def _create(broker: BrokerProcess) -> None:
    with Loader(broker.address) as loader:
        loader.create_topics([TOPIC])
