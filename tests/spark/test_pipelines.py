"""Topic to topic, dead letters and back, table to topic: on real Spark, each record once."""

from __future__ import annotations

import json
from typing import Any

from penstock.spark.pipelines.analysis import analyse
from penstock.spark.pipelines.redrive import redrive_letters
from penstock.spark.pipelines.replay import Replay, replay
from spark.shop import SCHEMA, Shop, order, values


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
    assert told["penstock.dlq.reason"] == b'id should be bigint but is "x"'
    assert (told["penstock.dlq.topic"], told["penstock.dlq.offset"], told["theirs"]) == (
        orders.encode(),
        b"2",
        b"1",
    )
    assert letters[2]["headers"]["penstock.dlq.reason"] == b"not positive: amount > 0"

    assert redrive_letters(spark, project, project.pipelines[0], is_dry=True).rows == 4
    assert redrive_letters(spark, project, project.pipelines[0], is_dry=False).rows == 4
    assert redrive_letters(spark, project, project.pipelines[0], is_dry=False).rows == 0
    back = [record for record in shop.read(orders) if record["offset"] >= 6]
    assert {record["value"] for record in back} == {letter["value"] for letter in letters}
    assert all(record["headers"] == {"theirs": b"1"} and record["key"] == b"k" for record in back)
    relaxed = {**lake, "decode": {**lake["decode"], "expect": {}}}
    shop.run(spark, shop.project({"lake": relaxed}))
    assert [row["id"] for row in shop.rows("lake")] == [1, 2, 7]
    assert len(shop.read(dead)) == 7


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


def test_a_batch_that_comes_again_changes_nothing(spark: Any, shop: Shop) -> None:
    """Death between an output's commit and Spark's own: the batch is run again under the same number."""
    orders, copy, dead = shop.topic("orders", 1), shop.topic("copy", 1), shop.topic("dead", 1)
    decode = {"schema": SCHEMA, "dead_letters": {"topic": dead}}
    source = {"topics": [orders]}
    project = shop.project(
        {
            "lake": {"source": source, "decode": decode, "sink": {"table": "lake"}},
            "copy": {"source": source, "decode": decode, "sink": {"topic": copy}},
        }
    )
    shop.put(orders, [order(1), b"nope", order(2)])
    shop.run(spark, project)
    for pipeline in project.pipelines:
        for done in (project.state_of(pipeline) / "checkpoint" / "commits").glob("[0-9.]*0*"):
            done.unlink()
    shop.run(spark, project)
    shop.put(orders, [order(3)])
    shop.run(spark, project)
    assert [row["id"] for row in shop.rows("lake")] == [1, 2, 3]
    assert [record["id"] for record in values(shop.read(copy))] == [1, 2, 3]
    assert len(shop.read(dead)) == 2, "one from each pipeline"


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
