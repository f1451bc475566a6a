"""Reads one topic with Spark from all compared sources: `python -m bench.spark_reads JSON`.

The sources are interleaved. An untimed first run of each keeps the start of the session out of the figures.
"""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition

import penstock.spark
from penstock.spark.source import COLUMNS

TASKS = 2
ROWS_PER_BATCH = 37_000
VALUE_BYTES = 100


class CeilingSource(DataSource):
    """Rows of the same size from memory: the ceiling of a Python source with Arrow."""

    @classmethod
    def name(cls) -> str:
        return "ceiling"

    def schema(self) -> Any:
        from pyspark.sql.types import StructType

        return StructType(list(COLUMNS))

    def reader(self, schema: Any) -> DataSourceReader:
        return CeilingReader(int(self.options["rows"]))

    def streamReader(self, schema: Any) -> DataSourceStreamReader:
        return CeilingStream(int(self.options["rows"]))


def _rows(count: int, partition: int) -> Iterator[Any]:
    from penstock.core.records.columns import SCHEMA

    size = min(count, ROWS_PER_BATCH)
    columns = [
        pa.nulls(size, pa.binary()),
        pa.array([b"x" * VALUE_BYTES] * size),
        pa.repeat(pa.scalar("bench"), size),
        pa.repeat(pa.scalar(partition, pa.int32()), size),
        pa.array(range(size), pa.int64()),
        pa.repeat(pa.scalar(0, pa.timestamp("us", tz="UTC")), size),
        pa.repeat(pa.scalar(0, pa.int32()), size),
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=SCHEMA)
    for start in range(0, count, size):
        yield batch.slice(0, min(size, count - start))


class CeilingReader(DataSourceReader):
    def __init__(self, rows: int) -> None:
        self.rows = rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(TASKS)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _rows(self.rows // TASKS, partition.value)


class CeilingStream(DataSourceStreamReader):
    def __init__(self, rows: int) -> None:
        self.rows = rows

    def initialOffset(self) -> dict[str, int]:
        return {"at": 0}

    def latestOffset(self) -> dict[str, int]:  # type: ignore[override]
        return {"at": self.rows}

    def partitions(self, start: dict[str, int], end: dict[str, int]) -> list[InputPartition]:
        return [InputPartition(number) for number in range(TASKS)] if end["at"] > start["at"] else []

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return _rows(self.rows // TASKS, partition.value)


def batch_s(spark: Any, form: str, options: dict[str, str]) -> float:
    begin_s = time.perf_counter()
    spark.read.format(form).options(**options).load().write.format("noop").mode("overwrite").save()
    return time.perf_counter() - begin_s


def stream_s(spark: Any, form: str, options: dict[str, str]) -> float:
    checkpoint = tempfile.mkdtemp(prefix="bench-checkpoint-")
    begin_s = time.perf_counter()
    query = (
        spark.readStream.format(form)
        .options(**options)
        .load()
        .writeStream.format("noop")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    seconds = time.perf_counter() - begin_s
    shutil.rmtree(checkpoint)
    return seconds


def main(bootstrap: str, topic: str, rows: int, repeats: int, jars: str) -> dict[str, list[float]]:
    """Rows per second of each source, by `<source> <kind>`."""
    conf = {"spark.jars": jars} if jars else {}
    spark = penstock.spark.session("local[2]", "bench", **conf, **{"spark.driver.memory": "1500m"})
    spark.dataSource.register(CeilingSource)
    topic_options = {"kafka.bootstrap.servers": bootstrap, "subscribe": topic, "startingOffsets": "earliest"}
    ways: dict[str, dict[str, str]] = {"penstock": topic_options, "ceiling": {"rows": str(rows)}}
    if jars:
        ways["kafka"] = topic_options
    found: dict[str, list[float]] = {}
    kinds: dict[str, Callable[..., float]] = {"batch": batch_s, "stream": stream_s}
    for kind, run in kinds.items():
        for number in range(repeats + 1):
            for way, options in ways.items():
                seconds = run(spark, way, options)
                if number:
                    found.setdefault(f"{way} {kind}", []).append(rows / seconds)
    spark.stop()
    return found


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from bench import spark_reads

    print(json.dumps(spark_reads.main(**json.loads(sys.argv[1]))))
