"""Windows, sessions, duplicates and memories on real Spark, with late rows aside."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from deltalake import DeltaTable

from penstock.spark.pipelines.analysis import analyse
from spark.shop import Shop, values

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


def test_windows_with_late_rows_aside(spark: Any, shop: Shop) -> None:
    orders, sums = shop.topic("orders", 1), shop.topic("sums", 1)
    window = {"time": "at", "size": "10s", "watermark": "5s", "compute": COMPUTE, "late": {"table": "late"}}
    project = shop.project(
        {"sums": aggregate(orders, {"topic": sums, "key": "window_start"}, {"window": window})}
    )
    shop.put(orders, [timed(1, 1), timed(2, 2), timed(3, 11), b"nope"])
    shop.run(spark, project)
    shop.put(orders, [timed(4, 40)])
    shop.run(spark, project)
    shop.put(orders, [timed(5, 3), timed(6, 41)])
    shop.run(spark, project)
    shop.put(orders, [timed(7, 100), timed(8, 12)])
    shop.run(spark, project)
    found = [(each["orders"], each["ids"]) for each in values(shop.read(sums))]
    assert sorted(found) == [(1, "3"), (2, "1 2"), (2, "4 6")]
    assert [row["id"] for row in shop.rows("late")] == [5, 8]
    assert [row["_offset"] for row in shop.rows("dead")] == [3]


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


def test_dedup_and_a_function_with_a_memory(spark: Any, shop: Shop) -> None:
    orders, counts = shop.topic("orders", 1), shop.topic("counts", 1)
    (shop.home / "memory_of_test.py").write_text(
        "import pandas as pd\n"
        "def count(key, frames, state):\n"
        "    seen = (state.get[0] if state.exists else 0) + sum(len(frame) for frame in frames)\n"
        "    state.update((seen,))\n"
        "    yield pd.DataFrame({'customer': [key[0]], 'seen': [seen]})\n"
    )
    memory = {
        "by": "customer",
        "function": "memory_of_test:count",
        "schema": "customer string, seen bigint",
        "state": "seen bigint",
    }
    project = shop.project(
        {
            "dedup": aggregate(
                orders, {"table": "once"}, {"dedup": {"by": "id", "time": "at", "within": "1m"}}
            ),
            "counts": aggregate(orders, {"topic": counts, "key": "customer"}, {"stateful": memory}),
        }
    )
    analyse(spark, project, project.pipelines)
    shop.put(orders, [timed(1, 1), timed(1, 2), timed(2, 3, "b")])
    shop.run(spark, project)
    shop.put(orders, [timed(2, 4, "b"), timed(3, 5)])
    shop.run(spark, project)
    assert sorted(row["id"] for row in shop.rows("once")) == [1, 2, 3]
    latest = {record["customer"]: record["seen"] for record in values(shop.read(counts))}
    assert latest == {"a": 3, "b": 2}
