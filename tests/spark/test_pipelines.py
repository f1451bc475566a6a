"""Every kind of pipeline on real Spark and a real broker: what goes in comes out once, where and as it should."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import pytest
from deltalake import DeltaTable

from penstock.spark.pipelines.analysis import analyse
from penstock.spark.pipelines.maintenance import compact
from penstock.spark.pipelines.problems import ForeignCheckpoint, RunFailed, WrongDefinition
from penstock.spark.pipelines.redrive import redrive
from penstock.spark.pipelines.replay import Replay, replay
from penstock.testing import Broker
from spark.shop import Shop, values

SCHEMA = "id bigint, customer string, amount double"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def shop(broker: Broker, tmp_path: Path, request: pytest.FixtureRequest) -> Shop:
    return Shop(broker, tmp_path, request.node.name.translate(str.maketrans("[]", "--")))


def order(number: int, **more: Any) -> dict[str, Any]:
    return {"id": number, "customer": f"c{number % 3}", "amount": number + 0.5, **more}


@pytest.mark.parametrize("format_name", ["delta", "iceberg", "parquet"])
def test_lake_in_every_format(spark: Any, shop: Shop, format_name: str) -> None:
    orders = shop.topic("orders")
    shop.put(orders, [order(number) for number in range(50)], key=b"k", headers=[("h", b"1")])
    lake = {
        "source": {"topics": [orders], "rows_per_batch_max": 20},
        "decode": {"schema": SCHEMA, "bad_rows": "fail"},
        "sink": {"table": "lake/orders", "format": format_name, "partition_by": ["_date"], "keep_raw": True},
    }
    project = shop.project({"lake": lake})
    shop.run(spark, project)
    shop.put(orders, [order(number) for number in range(50, 60)])
    shop.run(spark, project)
    rows = shop.rows("lake/orders", format_name)
    assert sorted(row["id"] for row in rows) == list(range(60))
    assert {row["_topic"] for row in rows} == {orders}
    assert {row["_date"] for row in rows} == {datetime.now(UTC).date()}
    assert [
        [(one["key"], one["value"]) for one in row["_headers"]] for row in rows if row["_key"] == b"k"
    ] == [[("h", b"1")]] * 50
    widened = {**lake, "decode": {"schema": f"{SCHEMA}, note string", "bad_rows": "fail"}}
    shop.put(orders, [order(60, note="new")])
    shop.run(spark, shop.project({"lake": widened}))
    assert shop.rows("lake/orders", format_name, "id", "note", "_offset")[-1]["note"] in (None, "new")
    assert {row["note"] for row in shop.rows("lake/orders", format_name)} == {None, "new"}
    done = compact(project, project.pipelines[0], file_bytes=10**9, keep_ms=86_400_000)
    assert done.files_after < done.files_before
    assert sorted(row["id"] for row in shop.rows("lake/orders", format_name)) == list(range(61))


def test_bad_rows_become_dead_letters_and_come_back(spark: Any, shop: Shop) -> None:
    orders = shop.topic("orders", 1)
    dead = shop.topic("orders.dlq", 1)
    bad = [b"nope", {"id": "x", "amount": 1}, {"id": 7, "amount": -1}, None]
    shop.put(orders, [order(1), *bad, order(2)], key=b"k", headers=[("theirs", b"1")])
    lake = {
        "source": {"topics": [orders]},
        "decode": {
            "schema": SCHEMA,
            "required": ["id"],
            "expect": {"positive": "amount > 0"},
            "dead_letters": {"topic": dead},
        },
        "sink": {"table": "lake"},
    }
    project = shop.project({"lake": lake})
    shop.run(spark, project)
    assert [row["id"] for row in shop.rows("lake")] == [1, 2]
    letters = shop.read(dead)
    assert [letter["value"] for letter in letters] == [
        b"nope",
        json.dumps(bad[1]).encode(),
        json.dumps(bad[2]).encode(),
        None,
    ]
    told = letters[1]["headers"]
    assert told["penstock.dlq.reason"] == b'id should be bigint and is "x"'
    assert (told["penstock.dlq.topic"], told["penstock.dlq.offset"], told["theirs"]) == (
        orders.encode(),
        b"2",
        b"1",
    )
    assert letters[2]["headers"]["penstock.dlq.reason"] == b"not positive: amount > 0"

    assert redrive(spark, project, project.pipelines[0], is_dry=True).rows == 4
    assert redrive(spark, project, project.pipelines[0], is_dry=False).rows == 4
    assert redrive(spark, project, project.pipelines[0], is_dry=False).rows == 0
    back = [record for record in shop.read(orders) if record["offset"] >= 6]
    assert {record["value"] for record in back} == {letter["value"] for letter in letters}
    assert all(record["headers"] == {"theirs": b"1"} and record["key"] == b"k" for record in back)
    relaxed = {**lake, "decode": {**lake["decode"], "expect": {}}}
    shop.run(spark, shop.project({"lake": relaxed}))
    assert [row["id"] for row in shop.rows("lake")] == [1, 2, 7]
    assert len(shop.read(dead)) == 7


def test_avro_with_bad_rows_to_a_table(spark: Any, shop: Shop) -> None:
    schema = {
        "type": "record",
        "name": "order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "tags", "type": {"type": "map", "values": "int"}},
        ],
    }
    (shop.home / "order.avsc").write_text(json.dumps(schema))

    def avro(number: int) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, {"id": number, "tags": {"a": number}})
        return b"\0\0\0\0\7" + out.getvalue()

    orders = shop.topic("orders", 1)
    shop.put(orders, [avro(1), b"\0\0\0\0\7", avro(2) + b"more", avro(3)])
    project = shop.project(
        {
            "avro": {
                "source": {"topics": [orders]},
                "decode": {
                    "format": "avro",
                    "schema_file": "order.avsc",
                    "framing": "confluent",
                    "dead_letters": {"table": "dead"},
                },
                "sink": {"table": "lake"},
            }
        }
    )
    shop.run(spark, project)
    assert [(row["id"], dict(row["tags"])) for row in shop.rows("lake")] == [(1, {"a": 1}), (3, {"a": 3})]
    assert [row["reason"][:22] for row in shop.rows("dead")] == ["no Avro of this schema"] * 2


def test_columns_of_json_are_found(spark: Any, shop: Shop) -> None:
    orders = shop.topic("orders", 1)
    project = shop.project(
        {
            "found": {
                "source": {"topics": [orders]},
                "decode": {"schema": "infer", "dead_letters": {"table": "dead"}},
                "sink": {"table": "lake"},
            }
        }
    )
    shop.put(orders, [{"id": 1, "place": {"town": "Ulm"}}, {"id": 2, "price": 1.5}, b"nope"])
    shop.run(spark, project)
    shop.put(orders, [{"id": 3, "is_new": True}, {"id": "no number"}])
    shop.run(spark, project)
    rows = shop.rows("lake", "delta", "id", "place", "price", "is_new", "_offset")
    assert [row["id"] for row in rows] == [1, 2, 3]
    assert (rows[0]["place"], rows[1]["price"], rows[2]["is_new"]) == ({"town": "Ulm"}, 1.5, True)
    assert [row["_offset"] for row in shop.rows("dead")] == [2, 4]


def test_transform_by_sql_and_python(spark: Any, shop: Shop) -> None:
    orders, large = shop.topic("orders"), shop.topic("large")
    (shop.home / "steps_of_test.py").write_text(
        "def doubled(rows):\n    return rows.selectExpr('id', 'amount * 2 as amount', '_key')\n"
    )
    shop.put(orders, [order(number) for number in range(100)])
    project = shop.project(
        {
            "large": {
                "source": {"topics": [orders], "rows_per_batch_max": 30},
                "decode": {"schema": SCHEMA, "bad_rows": "fail"},
                "steps": [
                    {"sql": "select * from input where amount >= 50"},
                    {"python": "steps_of_test:doubled"},
                ],
                "sink": {"topic": large, "key": "id"},
            }
        }
    )
    analyse(spark, project, project.pipelines)
    shop.run(spark, project)
    shop.run(spark, project)
    records = shop.read(large)
    assert sorted(record["id"] for record in values(records)) == list(range(50, 100))
    assert {record["key"].decode() for record in records} == {str(number) for number in range(50, 100)}
    assert {record["amount"] for record in values(records)} == {number * 2 + 1.0 for number in range(50, 100)}


def test_upsert_keeps_one_row_per_key(spark: Any, shop: Shop) -> None:
    changes = shop.topic("changes", 1)
    project = shop.project(
        {
            format_name: {
                "source": {"topics": [changes]},
                "decode": {"schema": "id bigint, name string, op string", "dead_letters": {"table": "dead"}},
                "sink": {
                    "table": f"now/{format_name}",
                    "format": format_name,
                    "mode": "upsert",
                    "key": "id",
                    "delete_when": "op = 'd'",
                },
            }
            for format_name in ("delta", "iceberg")
        }
    )
    shop.put(
        changes, [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 1, "name": "A"}, {"name": "none"}]
    )
    shop.put(changes, [{"id": 3, "name": "c"}], key=b"3")
    shop.run(spark, project)
    shop.put(changes, [{"id": 2, "op": "d"}, {"id": 4, "name": "d"}])
    shop.put(changes, [None], key=b"3")
    shop.run(spark, project)
    assert {row["id"]: row["name"] for row in shop.rows("now/delta")} == {1: "A", 4: "d"}
    assert {row["id"]: row["name"] for row in shop.rows("now/iceberg", "iceberg")} == {1: "A", 4: "d"}


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
    assert [(sums["orders"], sums["ids"]) for sums in values(shop.read(sums))] == [
        (2, "1 2"),
        (1, "3"),
        (2, "4 6"),
    ]
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


def test_replay_and_history_then_live(spark: Any, shop: Shop) -> None:
    orders, again = shop.topic("orders"), shop.topic("again")
    for number in range(40):
        shop.put(orders, [order(number)], key=b"k%d" % (number % 5), headers=[("n", b"%d" % number)])
    lake = {
        "source": {"topics": [orders]},
        "decode": {"schema": SCHEMA, "bad_rows": "fail"},
        "sink": {"table": "lake", "keep_raw": True},
    }
    after = {
        "source": {"topics": [orders], "history": {"table": "lake", "rows_per_batch_max": 7}},
        "decode": {"schema": SCHEMA, "bad_rows": "fail"},
        "sink": {"table": "copy"},
    }
    project = shop.project({"lake": lake, "after": after})
    by_name = {one.name: one for one in project.pipelines}
    shop.run(spark, project, "lake")
    shown: list[tuple[int, int, int]] = []
    ask = Replay(again, rows_per_s_max=1000)
    replay(spark, project, by_name["lake"], ask, lambda *told: shown.append(told))
    assert shown[-1][0] == shown[-1][1]
    assert replay(spark, project, by_name["lake"], ask, lambda *told: None) == 0, "it was finished"

    def plain(topic: str) -> list[Any]:
        names = ("key", "value", "headers", "partition", "timestamp")
        return [[record[name] for name in names] for record in shop.read(topic)]

    assert plain(again) == plain(orders)
    shop.put(orders, [order(number) for number in range(40, 50)])
    shop.run(spark, project, "after")
    shop.put(orders, [order(50)])
    shop.run(spark, project, "after")
    assert sorted(row["id"] for row in shop.rows("copy")) == list(range(51))


def test_raw_values_pass_as_they_are(spark: Any, shop: Shop) -> None:
    orders, copy = shop.topic("orders", 1), shop.topic("copy", 1)
    shop.put(orders, [b"\xff\x00", b"text", None], key=b"k", headers=[("h", b"1")])
    project = shop.project(
        {
            "copy": {
                "source": {"topics": [orders]},
                "decode": {"format": "raw"},
                "steps": [{"sql": "select _key as key, _value as value, _headers as headers from input"}],
                "sink": {"topic": copy, "value": "raw", "options": {"includeHeaders": "true"}},
            }
        }
    )
    shop.run(spark, project)
    assert [(one["key"], one["value"], one["headers"]) for one in shop.read(copy)] == [
        (b"k", b"\xff\x00", {"h": b"1"}),
        (b"k", b"text", {"h": b"1"}),
        (b"k", None, {"h": b"1"}),
    ]


def test_what_is_wrong_is_told_before_anything_starts(spark: Any, shop: Shop) -> None:
    orders = shop.topic("orders")
    project = shop.project(
        {
            "column": {
                "source": {"topics": [orders]},
                "decode": {"schema": SCHEMA},
                "steps": [{"sql": "select amuont from input"}],
                "sink": {"topic": "x"},
            },
            "type": {
                "source": {"topics": [orders]},
                "decode": {"schema": "id bigiint"},
                "sink": {"table": "x"},
            },
        }
    )
    with pytest.raises(WrongDefinition) as caught:
        analyse(spark, project, project.pipelines)
    assert "pipelines.column: [UNRESOLVED_COLUMN" in str(caught.value)
    assert "amount" in str(caught.value)
    assert "pipelines.type: " in str(caught.value)


def test_faults_are_told_in_words(spark: Any, shop: Shop) -> None:
    orders = shop.topic("orders", 1)
    shop.put(orders, [order(1), b"poison"])
    strict = {
        "source": {"topics": [orders]},
        "decode": {"schema": SCHEMA, "bad_rows": "fail"},
        "sink": {"table": "strict"},
    }
    project = shop.project({"strict": strict})
    with pytest.raises(
        RunFailed, match=r"strict: .*at offset 1: the value is no JSON.*bad_rows: dead_letter"
    ):
        shop.run(spark, project)
    assert shop.rows("strict") == []
    with pytest.raises(ForeignCheckpoint, match="belongs to another definition"):
        shop.run(spark, shop.project({"strict": {**strict, "sink": {"table": "elsewhere"}}}))

    lenient = {**strict, "decode": {"schema": SCHEMA, "dead_letters": {"table": "dead"}}}
    shop.run(spark, shop.project({"strict": lenient}))
    assert [row["id"] for row in shop.rows("strict")] == [1], "it goes on where it stopped"
    other = {**lenient, "decode": {"schema": "id string", "dead_letters": {"table": "dead"}}}
    shop.put(orders, [{"id": "text"}])
    with pytest.raises(RunFailed, match=r"id is int64 in the table and string in the rows.*sql step"):
        shop.run(spark, shop.project({"strict": other}))
