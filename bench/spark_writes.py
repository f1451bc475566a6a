"""Writes the same rows with Spark to all compared sinks: `python -m bench.spark_writes JSON`.

The sinks are interleaved. An untimed first run of each keeps the start of the session out of the figures.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

import penstock.spark

TASKS = 2
VALUE_BYTES = 100
EXACTLY_ONCE, AT_LEAST_ONCE, CONNECTOR = "exactly_once", "at_least_once", "connector"


def write_s(rows: Any, form: str, options: dict[str, str]) -> float:
    begin_s = time.perf_counter()
    rows.write.format(form).options(**options).mode("append").save()
    return time.perf_counter() - begin_s


def main(bootstrap: str, topic: str, rows: int, repeats: int, jars: str) -> dict[str, list[float]]:
    """Rows per second of each sink."""
    conf = {"spark.jars": jars} if jars else {}
    spark = penstock.spark.session("local[2]", "bench", **conf, **{"spark.driver.memory": "1500m"})
    made = spark.range(0, rows, 1, TASKS).selectExpr(
        "cast(cast(id as string) as binary) key", f"cast(repeat('x', {VALUE_BYTES}) as binary) value"
    )
    where = {"kafka.bootstrap.servers": bootstrap, "topic": topic}
    ways = {
        EXACTLY_ONCE: ("penstock", {**where, "delivery": EXACTLY_ONCE}),
        AT_LEAST_ONCE: ("penstock", {**where, "delivery": AT_LEAST_ONCE}),
    }
    if jars:
        ways[CONNECTOR] = ("kafka", where)
    found: dict[str, list[float]] = {way: [] for way in ways}
    for number in range(repeats + 1):
        for way, (form, options) in ways.items():
            seconds = write_s(made, form, options)
            if number:
                found[way].append(rows / seconds)
    spark.stop()
    return found


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
