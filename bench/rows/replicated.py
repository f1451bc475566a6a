"""Ingest with acks=all to three replicas, and acknowledgement latency at a fixed rate, with and without fsync.

Compared with a topic of one replica on the same brokers, in alternating runs.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

from bench.figures import Figure, figure
from bench.replicas import replicated_cluster
from bench.session import Session
from penstock.apps.bench.compare.drivers.driver import spread_ingest_rate
from penstock.apps.bench.compare.drivers.replicated import replicated_topic
from penstock.apps.bench.compare.rows.replicated import (
    CONNECTIONS,
    IN_FLIGHT_BATCHES,
    LATENCY_RATE,
    PARTITIONS,
)
from penstock.apps.bench.compare.rows.streams import BATCH_BYTES, KB
from penstock.apps.bench.harness.cluster import Cluster
from penstock.apps.bench.load.plan import LoadPlan
from penstock.apps.bench.load.producer import produce_load
from penstock.core.model import Durability

BATCH = BATCH_BYTES // KB
REPLICAS = (3, 1)


@dataclass(slots=True)
class Samples:
    """Of one durability and one number of replicas."""

    mb_per_s: list[float] = field(default_factory=list)
    cpu_s_per_gb: list[float] = field(default_factory=list)
    p50_ms: list[float] = field(default_factory=list)
    p99_ms: list[float] = field(default_factory=list)
    cpu_us: list[float] = field(default_factory=list)

    def __str__(self) -> str:
        return (
            f"{median(self.mb_per_s):.0f} MB/s, {median(self.cpu_s_per_gb):.1f} CPU-s per GB, p50"
            f" {median(self.p50_ms):.2f} ms, p99 {median(self.p99_ms):.2f} ms"
        )


def measure(session: Session) -> list[Figure]:
    figures: list[Figure] = []
    for durability in (Durability.OS, Durability.FSYNC):
        found = {replicas: Samples() for replicas in REPLICAS}
        with replicated_cluster(session, durability) as cluster:
            for number in range(session.pick(5, 2)):
                session.step(f"acks=all, {durability.value}")
                for replicas in REPLICAS:
                    _run(session, cluster, f"bench-{number}-{replicas}", replicas, found[replicas])
        figures += _figures(f"RF 3, acks=all, {durability.value}", found[3], found[1])
    return figures


def _run(session: Session, cluster: Cluster, name: str, replicas: int, into: Samples) -> None:
    with replicated_topic(cluster, name, PARTITIONS, replicas) as topic:
        writers = topic.writers(KB, CONNECTIONS)
        loads = [writer.load(BATCH) for writer in writers]
        count = BATCH * session.pick(4_000, 1_000)
        in_flight = BATCH * IN_FLIGHT_BATCHES
        spread_ingest_rate(writers, loads, count // 8 // BATCH * BATCH, in_flight)
        with cluster.cpu_time() as spent:
            rate = spread_ingest_rate(writers, loads, count, in_flight)
        for writer in writers:
            writer.link.close()
        into.mb_per_s.append(rate * KB / 1e6)
        into.cpu_s_per_gb.append(spent.cpu_s / (count * KB / 1e9))
        plan = LoadPlan(
            cluster.bootstrap, topic.topic, session.pick(8_000, 2_000), KB, rate=LATENCY_RATE, linger_ms=0.0
        )
        with cluster.cpu_time() as spent:
            found = produce_load(plan, lambda _done: None)
        into.p50_ms.append(found.latency_us["p50"] / 1e3)
        into.p99_ms.append(found.latency_us["p99"] / 1e3)
        into.cpu_us.append(spent.cpu_s * 1e6 / found.messages)


def _figures(name: str, three: Samples, one: Samples) -> list[Figure]:
    seen = f"one replica: {one}"
    return [
        figure(f"{name}: 1 KB batched", "MB/s", three.mb_per_s, seen),
        figure(f"{name}: 1 KB batched, CPU", "CPU-s per GB", three.cpu_s_per_gb, seen),
        figure(f"{name}: ack at {LATENCY_RATE:,} msg/s, p50", "ms", three.p50_ms, seen),
        figure(f"{name}: ack at {LATENCY_RATE:,} msg/s, p99", "ms", three.p99_ms, seen),
        figure(f"{name}: ack at {LATENCY_RATE:,} msg/s, CPU", "us a message", three.cpu_us, seen),
    ]
