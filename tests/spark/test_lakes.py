"""Topics to tables on real Spark: every format, every way to columns, merges, and what goes wrong, in words."""

from __future__ import annotations

import io
import json
from datetime import UTC, datetime
from typing import Any

import fastavro
import pytest

from penstock.spark.errors import ForeignCheckpoint, RunFailed, WrongDefinition
from penstock.spark.pipelines.analysis import analyse
from penstock.spark.pipelines.maintenance import compact_table
from spark.shop import SCHEMA, Shop, order


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
    more = (
        "note string, at timestamp, day date, price decimal(9,2), tags array<string>, by_name map<string,int>"
    )
    widened = {**lake, "decode": {"schema": f"{SCHEMA}, {more}", "bad_rows": "fail"}}
    shop.put(orders, [order(60, note="new", at="2026-01-01T00:00:00Z", tags=["a"], by_name={"a": 1})])
    for _ in range(2):
        analyse(spark, shop.project({"lake": widened}), shop.project({"lake": widened}).pipelines)
        shop.run(spark, shop.project({"lake": widened}))
    assert shop.rows("lake/orders", format_name, "id", "note", "_offset")[-1]["note"] in (None, "new")
    assert {row["note"] for row in shop.rows("lake/orders", format_name)} == {None, "new"}
    done = compact_table(project, project.pipelines[0], file_bytes=10**9, keep_ms=86_400_000)
    assert done.files_after < done.files_before
    assert sorted(row["id"] for row in shop.rows("lake/orders", format_name)) == list(range(61))


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
    assert [row["reason"][:22] for row in shop.rows("dead")] == ["not valid Avro for thi"] * 2


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


def test_what_is_wrong_is_told_before_anything_starts(spark: Any, shop: Shop) -> None:
    orders = shop.topic("orders")
    project = shop.project(
        {
            "column": {
                "source": {"topics": [orders]},
                "decode": {"schema": SCHEMA, "expect": {"a": "amuont > 0", "b": "customre is null"}},
                "steps": [{"sql": "select * from input"}, {"sql": "selct id from input"}],
                "sink": {"topic": "x"},
            },
            "type": {
                "source": {"topics": [orders]},
                "decode": {"schema": "id bigiint"},
                "sink": {"table": "x"},
            },
            "key": {
                "source": {"topics": [orders]},
                "decode": {"schema": SCHEMA},
                "steps": [{"sql": "select id, amount from input"}],
                "sink": {"table": "y", "mode": "upsert", "key": ["customer"]},
            },
            "function": {
                "source": {"topics": [orders]},
                "decode": {"schema": SCHEMA},
                "steps": [{"python": lambda rows: {}["no such key"]}],
                "sink": {"table": "z"},
            },
        }
    )
    with pytest.raises(WrongDefinition) as caught:
        analyse(spark, project, project.pipelines)
    told = {one.path: one.what for one in caught.value.problems}
    assert list(told) == [
        "pipelines.column.decode.expect.a",
        "pipelines.column.decode.expect.b",
        "pipelines.column.steps[1].sql",
        "pipelines.type.decode.schema",
        "pipelines.key.sink.key",
        "pipelines.function.steps[0].python",
    ]
    assert told["pipelines.function.steps[0].python"] == "the function raised KeyError: 'no such key'."
    assert "Did you mean one of the following? [`amount`" in told["pipelines.column.decode.expect.a"]
    assert told["pipelines.column.steps[1].sql"].startswith(
        "[PARSE_SYNTAX_ERROR] Syntax error at or near 'selct'"
    )
    assert told["pipelines.key.sink.key"] == "there is no column 'customer'."
    assert all(len(what) < 400 and "SQLSTATE" not in what for what in told.values()), told


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
        RunFailed, match=r"strict: .*at offset 1: the value is not valid JSON.*bad_rows: dead_letter"
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
    words = r"id is int64 in the table and string in the rows.*sql step"
    early = words.replace("int64", "bigint")
    with pytest.raises(WrongDefinition, match=rf"pipelines\.strict\.sink\.table: .*{early}"):
        analyse(spark, shop.project({"strict": other}), shop.project({"strict": other}).pipelines)
    with pytest.raises(RunFailed, match=words):
        shop.run(spark, shop.project({"strict": other}))
