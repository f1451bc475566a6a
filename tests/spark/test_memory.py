"""The memory of Spark's Python workers while they read: as much at the end as in the middle, however much there is."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from penstock.core.model import NewRecord
from penstock.testing import running_broker
from spark.processes import DAEMON, below, resident_bytes
from topic_fixtures import connected, create, fill

TOPIC_BYTES = int(os.environ.get("SPARK_READ_BYTES", 1_500_000_000))
VALUE_BYTES, RECORDS = 100, 9_000
"""One batch: a little less than a megabyte, which a broker takes."""

GROWTH_BYTES_MAX = 32 << 20
"""Half of the topic is read between the two halves: what is not let go of would show as many times this."""

LOOK_S = 0.1


class Watch(threading.Thread):
    """How much memory the largest worker holds, looked at again and again until it is told to stop."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.held: list[int] = []
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(LOOK_S):
            workers = below(os.getpid(), DAEMON)
            self.held.append(max((resident_bytes(pid) for pid in workers), default=0))

    def stop(self) -> list[int]:
        self._is_over.set()
        self.join()
        return self.held


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_workers_hold_no_more_at_the_end_than_in_the_middle(spark: Any, tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker:
        with connected(broker) as cluster:
            create(cluster, "large")
            times = TOPIC_BYTES // (VALUE_BYTES * RECORDS)
            fill(cluster, "large", [NewRecord(None, os.urandom(VALUE_BYTES)) for _ in range(RECORDS)], times)
        where = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": "large"}
        rows = spark.read.format("penstock").options(**where).load()
        watch = Watch()
        watch.start()
        began_s = time.monotonic()
        found = rows.selectExpr("count(*) rows", "sum(length(value)) bytes").first()
        seconds = time.monotonic() - began_s
        held = watch.stop()
    assert found.rows == times * RECORDS
    half = len(held) // 2
    before, after = max(held[:half]), max(held[half:])
    print(
        f"{found.bytes >> 20} MB read in {seconds:.1f} s; the largest worker held {before >> 20} MB in the first "
        f"half and {after >> 20} MB in the second, looked at {len(held)} times"
    )
    assert after - before <= GROWTH_BYTES_MAX
