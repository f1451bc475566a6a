"""Copies one topic to Delta tables with Spark: `python -m bench.spark_lakes JSON`.

The formats are interleaved. An untimed first run of each keeps the start of the session out of the figures.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import penstock.spark
from penstock.spark.lake.tables import open_table
from penstock.spark.pipelines.loader import read_project
from penstock.spark.pipelines.runner import started, watch

RAW, COLUMNS = "raw", "columns"
WAYS: dict[str, dict[str, str]] = {
    RAW: {"format": "raw"},
    COLUMNS: {"schema": "id bigint, customer string, amount double, note string", "bad_rows": "dead_letter"},
}
"""Raw values; columns from JSON, with validation of every row."""


def lake_s(spark: Any, bootstrap: str, topic: str, rows: int, decode: dict[str, str]) -> float:
    """Seconds from the first read of the topic to the last commit of the table."""
    with tempfile.TemporaryDirectory(prefix="bench-lake-") as scratch:
        home = Path(scratch)
        pipeline = {"source": {"topics": [topic]}, "decode": decode, "sink": {"table": "lake"}}
        project = read_project({"bootstrap": bootstrap, "pipelines": {"lake": pipeline}}, home)
        begin_s = time.perf_counter()
        with started(spark, project, project.pipelines, is_once=True) as running:
            watch(running, lambda looks: None, lambda: False)
        seconds = time.perf_counter() - begin_s
        table = open_table(home / "lake", "delta")
        written = sum(end - start for start, end in table.spans().values())
        assert written == rows, f"{written} of {rows} rows are in the table"
        return seconds


def main(bootstrap: str, topic: str, rows: int, repeats: int) -> dict[str, list[float]]:
    """Rows per second of each format."""
    spark = penstock.spark.session("local[2]", "bench", **{"spark.driver.memory": "1500m"})
    found: dict[str, list[float]] = {way: [] for way in WAYS}
    for number in range(repeats + 1):
        for way, decode in WAYS.items():
            seconds = lake_s(spark, bootstrap, topic, rows, decode)
            if number:
                found[way].append(rows / seconds)
    spark.stop()
    return found


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
