"""Small batches of a steady stream through Spark, to `noop` and to a topic: `python -m bench.spark_latencies JSON`.

Samples taken before Spark is warm do not count.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from confluent_kafka import Consumer, Producer

import penstock.spark

RATE = 1_000
WARM_UP_S = 10.0
TRIGGER_MS, BARE_MS, THROUGH_MS = "trigger", "bare", "through"
ROWS_PER_BATCH = 100


class Feeder(threading.Thread):
    """Produces RATE records per second, each with its due time, from which the latency counts."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        super().__init__(daemon=True)
        self._producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0})
        self._topic = topic
        self._is_over = threading.Event()

    def run(self) -> None:
        start_ns, number = time.time_ns(), 0
        while not self._is_over.is_set():
            due_ns = start_ns + number * 1_000_000_000 // RATE
            ahead_s = (due_ns - time.time_ns()) / 1e9
            if ahead_s > 0:
                self._producer.poll(0)
                self._is_over.wait(ahead_s)
                continue
            self._producer.produce(self._topic, str(due_ns))
            number += 1
        self._producer.flush()

    def __enter__(self) -> Feeder:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self.join()


@contextmanager
def streaming(spark: Any, bootstrap: str, topic: str, form: str, options: dict[str, str]) -> Iterator[Any]:
    """A query that copies new records of the topic to a sink."""
    read = spark.readStream.format("penstock").option("kafka.bootstrap.servers", bootstrap)
    rows = read.option("subscribe", topic).option("startingOffsets", "latest").load()
    with written(rows.select("value"), form, options) as query:
        yield query


@contextmanager
def written(rows: Any, form: str, options: dict[str, str]) -> Iterator[Any]:
    """A running query that is stopped at the end of the block."""
    with tempfile.TemporaryDirectory(prefix="bench-checkpoint-", ignore_cleanup_errors=True) as checkpoint:
        write = rows.writeStream.format(form).options(**options)
        query = write.option("checkpointLocation", checkpoint).start()
        try:
            yield query
        finally:
            query.stop()


def trigger_ms(query: Any, seconds: float) -> list[float]:
    """Duration of each batch with records, once Spark is warm."""
    time.sleep(WARM_UP_S)
    found: dict[int, float] = {}
    begin_id = (query.lastProgress or {"batchId": 0})["batchId"]
    deadline_s = time.monotonic() + seconds
    while time.monotonic() < deadline_s:
        time.sleep(1)
        for one in query.recentProgress:
            if one["batchId"] > begin_id and one["numInputRows"]:
                found[one["batchId"]] = float(one["durationMs"]["triggerExecution"])
    return list(found.values())


def through_ms(bootstrap: str, topic: str, seconds: float) -> list[float]:
    """Time from when each record was due until a read_committed consumer received it."""
    settings = {"group.id": "bench", "auto.offset.reset": "latest", "isolation.level": "read_committed"}
    consumer = Consumer({"bootstrap.servers": bootstrap, **settings})
    consumer.subscribe([topic])
    found: list[float] = []
    begin_s = time.monotonic() + WARM_UP_S
    while (now_s := time.monotonic()) < begin_s + seconds:
        for message in consumer.consume(500, timeout=0.1):
            if message.error() is not None:
                raise RuntimeError(str(message.error()))
            if now_s >= begin_s:
                found.append((time.time_ns() - int(message.value() or b"0")) / 1e6)
    consumer.close()
    return found


def main(bootstrap: str, topic: str, out: str, seconds: float) -> dict[str, list[float]]:
    """Milliseconds of each batch of Spark's rate source, of each batch of Penstock's source, and of each record."""
    spark = penstock.spark.session("local[2]", "bench", **{"spark.driver.memory": "1500m"})
    bare = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", ROWS_PER_BATCH).load()
    with written(bare, "noop", {}) as query:
        bares = trigger_ms(query, seconds)
    with Feeder(bootstrap, topic):
        with streaming(spark, bootstrap, topic, "noop", {}) as query:
            triggers = trigger_ms(query, seconds)
        sink = {"kafka.bootstrap.servers": bootstrap, "topic": out}
        with streaming(spark, bootstrap, topic, "penstock", sink):
            through = through_ms(bootstrap, out, seconds)
    spark.stop()
    return {BARE_MS: bares, TRIGGER_MS: triggers, THROUGH_MS: through}


if __name__ == "__main__":
    print(json.dumps(main(**json.loads(sys.argv[1]))))
