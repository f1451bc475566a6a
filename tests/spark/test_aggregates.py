"""Windows that overlap, sessions and updates on real Spark."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from deltalake import DeltaTable

from spark.shop import Shop

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def timed(number: int, seconds: float, customer: str = "a") -> dict[str, Any]:
    return {
        "id": number,
        "at": (NOON + timedelta(seconds=seconds)).isoformat(),
        "customer": customer,
        "amount": 1.0,
    }


AGGREGATE = {"schema": "id bigint, at timestamp, customer string, amount double", "bad_rows": "dead_letter"}
COMPUTE = {"orders": "count(*)", "ids": "array_join(sort_array(collect_list(id)), ' ')"}


def aggregate(topic: str, sink: dict[str, Any], *steps: dict[str, Any]) -> dict[str, Any]:
    return {
        "source": {"topics": [topic]},
        "decode": {**AGGREGATE, "dead_letters": {"table": "dead"}},
        "steps": list(steps),
        "sink": sink,
    }


def test_sliding_and_session_windows_and_updates(spark: Any, shop: Shop) -> None:
    orders = shop.topic("orders", 1)
    sliding = {"time": "at", "size": "20s", "slide": "10s", "watermark": "1s", "compute": COMPUTE}
    session = {"time": "at", "gap": "5s", "watermark": "1s", "by": ["customer"], "compute": COMPUTE}
    updates = {
        "time": "at",
        "size": "1h",
        "watermark": "1h",
        "by": ["customer"],
        "compute": COMPUTE,
        "emit": "updates",
    }
    upsert = {"table": "updates", "mode": "upsert", "key": ["window_start", "customer"]}
    project = shop.project(
        {
            "sliding": aggregate(orders, {"table": "sliding"}, {"window": sliding}),
            "session": aggregate(orders, {"table": "session"}, {"window": session}),
            "updates": aggregate(orders, upsert, {"window": updates}),
        }
    )
    shop.put(orders, [timed(1, 1), timed(2, 4), timed(3, 14), timed(4, 15, "b")])
    shop.run(spark, project)
    shop.put(orders, [timed(9, 300, "z")])
    shop.run(spark, project)

    def read(table: str) -> set[str]:
        return set(DeltaTable(str(shop.home / table)).to_pyarrow_table()["ids"].to_pylist())

    assert read("sliding") == {"1 2", "1 2 3 4", "3 4"}
    assert read("session") == {"1 2", "3", "4"}
    assert read("updates") == {"1 2 3", "4", "9"}
