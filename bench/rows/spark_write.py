"""Spark writing a topic: exactly once, at least once, and with Spark's Kafka connector, interleaved."""

from __future__ import annotations

from bench.figures import Figure, at_least, figure
from bench.session import TOPIC, Session
from bench.spark_child import connector_jars, run_spark
from bench.spark_writes import AT_LEAST_ONCE, CONNECTOR, EXACTLY_ONCE, VALUE_BYTES
from penstock.apps.bench.harness.loader import Loader

PARTITIONS = 2
RATIOS_MIN = {EXACTLY_ONCE: 0.7, AT_LEAST_ONCE: 1.0}


def measure(session: Session) -> list[Figure]:
    rows = session.pick(5_000_000, 500_000)
    with session.broker(durability="os", default_partitions=PARTITIONS) as server:
        with Loader(server.address) as loader:
            loader.create_topics([TOPIC])
        session.step("spark-write: all sinks, interleaved")
        arguments = {
            "bootstrap": server.bootstrap,
            "topic": TOPIC,
            "rows": rows,
            "repeats": session.pick(3, 2),
        }
        found = run_spark("bench.spark_writes", session.cpus, {**arguments, "jars": connector_jars()})
    return [one for way in RATIOS_MIN for one in _figures(found, way, rows)]


def _figures(found: dict[str, list[float]], way: str, rows: int) -> list[Figure]:
    name = f"Spark write, {way.replace('_', ' ')}"
    reference = f"{rows:,} rows of {VALUE_BYTES} bytes, local[2]"
    figures = [figure(name, "rows/s", found[way], reference)]
    if CONNECTOR in found:
        theirs = found[CONNECTOR]
        ratios = [one / other for one, other in zip(found[way], theirs, strict=True)]
        pace = figure("bare", "rows/s", theirs, "").value
        reference = f"Spark's Kafka connector, at least once, same topic, interleaved: {pace:,.0f} rows/s"
        figures.append(
            figure(f"{name}, against the connector", "×", ratios, reference, at_least(RATIOS_MIN[way]))
        )
    return figures
