"""Latency of one small Spark batch, and of a record through Spark from one topic to another, exactly once."""

from __future__ import annotations

from bench.figures import Figure, at_most, figure
from bench.session import TOPIC, Session
from bench.spark_child import run_spark
from bench.spark_latencies import BARE_MS, RATE, THROUGH_MS, TRIGGER_MS
from penstock.apps.bench.harness.loader import Loader
from penstock.apps.bench.harness.samples import percentile

OUT = "out"
TRIGGER_MS_MAX, THROUGH_MS_MAX = 70.0, 120.0


def measure(session: Session) -> list[Figure]:
    triggers: list[float] = []
    bares: list[float] = []
    throughs: list[list[float]] = []
    for number in range(session.pick(3, 1)):
        with session.broker(durability="os", default_partitions=1) as server:
            with Loader(server.address) as loader:
                loader.create_topics([TOPIC, OUT])
            session.step(f"spark-latency: {number + 1}")
            arguments = {
                "bootstrap": server.bootstrap,
                "topic": TOPIC,
                "out": OUT,
                "seconds": session.pick(20, 10),
            }
            found = run_spark("bench.spark_latencies", session.cpus, arguments)
        bares.append(percentile(sorted(found[BARE_MS]), 0.5))
        triggers.append(percentile(sorted(found[TRIGGER_MS]), 0.5))
        throughs.append(sorted(found[THROUGH_MS]))
    reference = f"{RATE:,} records a second, local[2], checkpoint on disk"
    p50s, p99s = ([percentile(one, share) for one in throughs] for share in (0.5, 0.99))
    return [
        figure("Spark, a small batch to noop, median", "ms", triggers, reference, at_most(TRIGGER_MS_MAX)),
        figure("the same from Spark's rate source", "ms", bares, "the cost of a batch without Penstock"),
        figure(
            "topic to Spark to topic, exactly once, p50", "ms", p50s,
            "until a read_committed consumer receives it", at_most(THROUGH_MS_MAX),
        ),
        figure("the same, p99", "ms", p99s, "the same run"),
    ]  # fmt: skip
