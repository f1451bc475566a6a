"""Throughput of a pipeline from a topic to a Delta table: raw values, and columns from JSON, interleaved."""

from __future__ import annotations

import json

from bench.figures import Figure, at_least, figure
from bench.session import TOPIC, Session
from bench.spark_child import run_spark
from bench.spark_lakes import COLUMNS, RAW
from penstock.apps.bench.harness.frames import FIXED_TIME_MS, produce_frame
from penstock.apps.bench.harness.loader import Loader
from penstock.core.model import NewRecord
from penstock.core.records.build import build_batch

RECORDS = 5_000
VALUE_BYTES = 100
PARTITIONS = (0, 1)
ROWS_PER_S_MIN = 400_000


def measure(session: Session) -> list[Figure]:
    rows = session.pick(5_000_000, 500_000)
    with session.broker(durability="os", default_partitions=len(PARTITIONS), retention_ms=-1) as server:
        session.step("spark-lake: fill")
        frame = produce_frame(TOPIC, _orders(), PARTITIONS)
        with Loader(server.address) as loader:
            loader.create_topics([TOPIC])
            response_bytes = loader.produce(frame)
            loader.pipeline_s(frame, response_bytes, rows // RECORDS // len(PARTITIONS) - 1, 16)
        session.step("spark-lake: both formats, interleaved")
        arguments = {
            "bootstrap": server.bootstrap,
            "topic": TOPIC,
            "rows": rows,
            "repeats": session.pick(3, 2),
        }
        found = run_spark("bench.spark_lakes", session.cpus, arguments)
    reference = f"{rows:,} records of {VALUE_BYTES} bytes from 2 partitions, local[2], exactly once"
    return [
        figure("Spark to Delta, raw values", "rows/s", found[RAW], reference, at_least(ROWS_PER_S_MIN)),
        figure("Spark to Delta, columns from JSON", "rows/s", found[COLUMNS], reference),
    ]


def _orders() -> bytes:
    """A batch of JSON values of equal size."""
    values = []
    for number in range(RECORDS):
        plain = {"id": number, "customer": f"c{number % 997}", "amount": number / 4, "note": ""}
        plain["note"] = "x" * (VALUE_BYTES - len(json.dumps(plain)))
        values.append(NewRecord(None, json.dumps(plain).encode()))
    return bytes(build_batch(values, FIXED_TIME_MS))
