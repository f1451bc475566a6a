"""Rates from two readings of metrics."""

from __future__ import annotations

from typing import Any

from penstock.apps.cli.broker_metrics import NAMES, Reading, load_content, parse_metrics
from penstock.node.metrics.families import FAMILIES

TEXT = r"""# HELP penstock_topic_bytes_in_total Bytes.
process_cpu_seconds_total {cpu}
process_resident_memory_bytes 1000
penstock_connections{door="kafka"} 2
penstock_connections{door="http"} 1
penstock_topic_bytes_in_total{topic="odd \"name\"\\"} {bytes}
penstock_partition_high_watermark{topic="odd \"name\"\\",partition="0"} {end}
penstock_partition_start_offset{topic="odd \"name\"\\",partition="0"} 10
penstock_partition_size_bytes{topic="odd \"name\"\\",partition="0"} 500
penstock_partition_high_watermark{topic="__internal",partition="0"} 5
penstock_group_lag_records{group="g",topic="t",partition="0"} {lag}
penstock_fsync_seconds_sum {fsync}
penstock_fsync_seconds_count {count}
not a metric at all
"""


def reading(at_s: float, **values: float) -> Reading:
    text = TEXT
    for name, value in values.items():
        text = text.replace("{" + name + "}", str(value))
    return Reading(at_s, {one: parse_metrics(text, NAMES) for one in (1, 2)})


def test_rates() -> None:
    before = reading(10.0, cpu=1.0, bytes=100, end=20, lag=4, fsync=1.0, count=10)
    now = reading(12.0, cpu=2.0, bytes=300, end=40, lag=8, fsync=1.02, count=20)
    found: dict[str, Any] = load_content(before, now)
    assert found["seconds"] == 2.0
    assert found["brokers"][0] == {
        "id": 1,
        "cpu_percent": 50.0,
        "memory_bytes": 1000,
        "connections": 3,
        "requests_per_s": 0.0,
        "bytes_in_per_s": 100.0,
        "bytes_out_per_s": 0.0,
        "fsync_ms": 2.0,
    }
    (topic,) = found["topics"]
    assert topic["topic"] == 'odd "name"\\' and topic["records"] == 30 and topic["bytes"] == 500
    assert topic["records_in_per_s"] == 10.0  # of one copy, though two brokers have one
    assert found["groups"] == [{"group": "g", "lag": 8, "lag_change_per_s": 2.0}]


def test_a_broker_that_started_again_is_not_counted_backwards() -> None:
    before = reading(10.0, cpu=5.0, bytes=900, end=40, lag=4, fsync=1.0, count=10)
    now = reading(12.0, cpu=1.0, bytes=10, end=40, lag=4, fsync=0.0, count=0)
    found: dict[str, Any] = load_content(before, now)
    assert found["brokers"][0]["cpu_percent"] == 0.0 and found["brokers"][0]["fsync_ms"] is None
    assert found["topics"][0]["bytes_in_per_s"] == 0.0


def test_the_broker_has_these_metrics() -> None:
    known = {family.name for family in FAMILIES}
    assert {name.removesuffix("_count").removesuffix("_sum") for name in NAMES} <= known
