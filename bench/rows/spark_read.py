"""Spark reading a topic: Penstock's source, Spark's Kafka connector, and Arrow from memory, interleaved."""

from __future__ import annotations

from bench.figures import Figure, at_least, figure
from bench.session import TOPIC, Session
from bench.spark_child import connector_jars, run_spark
from penstock.apps.bench.harness.frames import make_batch, produce_frame
from penstock.apps.bench.harness.loader import Loader

RECORDS = 5_000
VALUE_BYTES = 100
PARTITIONS = (0, 1)


def measure(session: Session) -> list[Figure]:
    rows = session.pick(10_000_000, 1_000_000)
    with session.broker(durability="os", default_partitions=len(PARTITIONS), retention_ms=-1) as server:
        session.step("spark-read: fill")
        frame = produce_frame(TOPIC, make_batch(RECORDS, VALUE_BYTES), PARTITIONS)
        with Loader(server.address) as loader:
            loader.create_topics([TOPIC])
            response_bytes = loader.produce(frame)
            loader.pipeline_s(frame, response_bytes, rows // RECORDS // len(PARTITIONS) - 1, 16)
        session.step("spark-read: all sources, interleaved")
        arguments = {
            "bootstrap": server.bootstrap,
            "topic": TOPIC,
            "rows": rows,
            "repeats": session.pick(3, 2),
        }
        found = run_spark("bench.spark_reads", session.cpus, {**arguments, "jars": connector_jars()})
    return [one for kind in ("batch", "stream") for one in _figures(found, kind, rows)]


def _figures(found: dict[str, list[float]], kind: str, rows: int) -> list[Figure]:
    ours, ceiling = found[f"penstock {kind}"], found[f"ceiling {kind}"]
    theirs = found.get(f"kafka {kind}")
    reference = f"{rows:,} records of {VALUE_BYTES} bytes to noop, local[2]"
    bare = figure("bare", "rows/s", ceiling, "").value
    shares = [one / other for one, other in zip(ours, ceiling, strict=True)]
    figures = [
        figure(f"Spark {kind} read", "rows/s", ours, reference),
        figure(
            f"Spark {kind} read, against Arrow from memory", "×", shares,
            f"the same query over a source that only yields Arrow: {bare:,.0f} rows/s", at_least(0.8),
        ),
    ]  # fmt: skip
    if theirs is not None:
        ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
        pace = figure("bare", "rows/s", theirs, "").value
        reference = f"Spark's Kafka connector, same topic, interleaved: {pace:,.0f} rows/s"
        figures.append(
            figure(f"Spark {kind} read, against the connector", "×", ratios, reference, at_least(1.0))
        )
    return figures
