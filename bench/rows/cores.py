"""`penstock start --cores 2` against one core: small batches in and out with librdkafka, as CPU-bound as it gets.

On two CPUs the client competes with the brokers, so the throughput that it sees says more about the client. Therefore
the rows compare what the brokers could do with a client elsewhere: records per second of CPU time of the busiest
broker, which is what limits a cluster whose brokers have a core each.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from statistics import median

from bench.cluster import CORES, RunningBroker, stopped_cluster
from bench.figures import Figure, at_least, figure
from bench.rdkafka_client import VALUE_SIZE, Done, run_client
from bench.session import TOPIC, Session
from penstock.apps.bench.harness.frames import make_batch, produce_frame
from penstock.apps.bench.harness.loader import Loader
from penstock.apps.bench.harness.process import cpu_clock_s

GAIN_MIN = 1.6
PARTITIONS = 8
IN = {VALUE_SIZE: 100, "linger.ms": 50, "batch.num.messages": 10}
"""Batches are full whatever the speed of the broker: smaller ones would cost more for each record."""
OUT = {"fetch.message.max.bytes": 4096, "fetch.max.bytes": 16384, "message.max.bytes": 16384}
VERBS = {"librdkafka, produce": IN, "librdkafka, consume": OUT}
BARE = "bare sockets, produce"
CONNECTIONS = 2
IN_FLIGHT = 64
BATCH_RECORDS = 10


@dataclass(slots=True)
class Samples:
    """Of one number of cores and one direction."""

    capacity: list[float] = field(default_factory=list)
    """Records per second of CPU time of the busiest broker."""
    rate: list[float] = field(default_factory=list)
    client_us: list[float] = field(default_factory=list)
    broker_us: list[float] = field(default_factory=list)

    def add(self, done: Done, cpu_s: list[float]) -> None:
        self.capacity.append(done.records / max(cpu_s))
        self.rate.append(done.records / done.seconds)
        self.client_us.append(done.cpu_s / done.records * 1e6)
        self.broker_us.append(sum(cpu_s) / done.records * 1e6)


def measure(session: Session) -> list[Figure]:
    count = session.pick(200_000, 40_000)
    found = {(verb, cores): Samples() for verb in (BARE, *VERBS) for cores in (1, 2)}
    for _ in range(session.pick(3, 1)):
        for cores in (1, 2):
            session.step(f"small batches, {cores} {'core' if cores == 1 else 'cores'}")
            with _brokers(session, cores) as brokers:
                with Loader(brokers[0].address) as loader:
                    loader.leaders([TOPIC])
                _saturate(brokers, count, found[BARE, cores])
                for verb, settings in VERBS.items():
                    _run(session, brokers, verb, settings, count, found[verb, cores])
    figures: list[Figure] = []
    for verb in (BARE, *VERBS):
        figures += _figures(verb, found[verb, 1], found[verb, 2])
    return figures


@contextmanager
def _brokers(session: Session, cores: int) -> Iterator[list[RunningBroker]]:
    """Brokers with a core each; the client shares that of the second one."""
    flags: dict[str, str | int] = {"durability": "os", "default_partitions": PARTITIONS}
    if cores == 1:
        with session.broker(**flags) as server:
            yield [RunningBroker(0, server.process.pid, server.address, {})]
        return
    cpus = (session.cpus.server, session.cpus.loader)
    with stopped_cluster(session, cores, *cpus, words=CORES, **flags) as cluster:
        cluster.start()
        yield cluster.brokers


def _run(
    session: Session,
    brokers: list[RunningBroker],
    verb: str,
    settings: dict[str, str | int],
    count: int,
    into: Samples,
) -> None:
    bootstrap = ",".join(f"{one.address[0]}:{one.address[1]}" for one in brokers)
    before = [cpu_clock_s(one.pid) for one in brokers]
    done = run_client(session.cpus.loader, verb.split()[-1], bootstrap, TOPIC, count, PARTITIONS, settings)
    spent = [cpu_clock_s(one.pid) - was for one, was in zip(brokers, before, strict=True)]
    into.add(done, spent)


def _saturate(brokers: list[RunningBroker], count: int, into: Samples) -> None:
    """The same batches from connections that always have requests waiting: librdkafka needs more CPU for a record than
    a broker, and a broker that waits for the next request handles fewer of them at a time."""
    with ExitStack() as stack:
        found = stack.enter_context(Loader(brokers[0].address)).leaders([TOPIC])[TOPIC]
        by_id = {one.node_id: one for one in brokers}
        batch, work = make_batch(BATCH_RECORDS, 100), []
        for number in range(CONNECTIONS):
            broker = brokers[number % len(brokers)]
            indexes = [at for at, leader in enumerate(found) if by_id.get(leader, brokers[0]) is broker]
            frame = produce_frame(TOPIC, batch, [indexes[number // len(brokers)]])
            loader = stack.enter_context(Loader(broker.address))
            work.append((loader, frame, loader.produce(frame)))
        requests = count // BATCH_RECORDS // CONNECTIONS
        before, client_s = [cpu_clock_s(one.pid) for one in brokers], time.process_time()
        started_s = time.perf_counter()
        with ThreadPoolExecutor(CONNECTIONS) as threads:
            list(threads.map(lambda one: one[0].pipeline_s(one[1], one[2], requests, IN_FLIGHT), work))
        seconds, client_s = time.perf_counter() - started_s, time.process_time() - client_s
        spent = [cpu_clock_s(one.pid) - was for one, was in zip(brokers, before, strict=True)]
        records = requests * CONNECTIONS * BATCH_RECORDS
        into.add(Done(records, records * 100, seconds, client_s), spent)


def _figures(verb: str, one: Samples, two: Samples) -> list[Figure]:
    gains = [many / few for many, few in zip(two.capacity, one.capacity, strict=True)]
    seen = [many / few for many, few in zip(two.rate, one.rate, strict=True)]
    costs = (
        f"broker CPU of one record: {median(one.broker_us):.1f} µs, of both {median(two.broker_us):.1f} µs"
    )
    clients = f"client CPU of one record: {median(one.client_us):.1f} and {median(two.client_us):.1f} µs"
    name = f"small batches, {verb}, 2 cores against 1"
    return [
        figure(f"{name}: records per CPU second", "×", gains, costs, at_least(GAIN_MIN)),
        figure(f"{name}: throughput", "×", seen, clients),
    ]
