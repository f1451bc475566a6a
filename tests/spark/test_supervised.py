"""Pipelines beside one that fails: they go on, what may pass is repeated, and dead-letter topics exist in time."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.spark.errors import RunFailed
from penstock.spark.pipelines.state import PipelineState
from spark.shop import SCHEMA, Shop, order

FLAKY = """
from pathlib import Path

def once(rows):
    flag = Path({flag!r})
    if not flag.exists():
        flag.touch()
        raise OSError("Python worker failed to connect back.")
    return rows
"""


def test_one_that_fails_does_not_stop_the_others(spark: Any, shop: Shop) -> None:
    orders = shop.topic("orders", 1)
    (shop.home / "flaky_of_test.py").write_text(FLAKY.format(flag=str(shop.home / "flag")))
    (shop.home / "flag").touch()  # the look before the start calls it as well
    source = {"topics": [orders], "rows_per_batch_max": 5}
    strict = {"schema": SCHEMA, "bad_rows": "fail"}
    project = shop.project(
        {
            "strict": {"source": source, "decode": strict, "sink": {"table": "strict"}},
            "good": {"source": source, "decode": {"schema": SCHEMA}, "sink": {"table": "good"}},
            "flaky": {
                "source": source,
                "decode": {"schema": SCHEMA},
                "steps": [{"python": "flaky_of_test:once"}],
                "sink": {"table": "flaky"},
            },
        }
    )
    (shop.home / "flag").unlink()
    shop.put(orders, [b"poison", *(order(number) for number in range(20))])
    with pytest.raises(RunFailed, match=r"^strict: .*at offset 0: the value is not valid JSON") as caught:
        shop.run(spark, project)
    assert len(str(caught.value).splitlines()) == 1
    for table in ("good", "flaky"):
        assert [row["id"] for row in shop.rows(table)] == list(range(20)), table
    found = {one.name: PipelineState(project.state_of(one)).status() or {} for one in project.pipelines}
    assert {name: (one["state"], one["restarts"]) for name, one in found.items()} == {
        "strict": ("failed", 0),
        "good": ("stopped", 0),
        "flaky": ("stopped", 1),
    }
    assert found["strict"]["failed_at"]
    assert "failed to connect back" in found["flaky"]["error"]
    assert len(shop.read(f"{orders}.dlq")) == 2, "the topic was created at the start"


def test_topics_for_dead_letters_are_there_before_the_first_bad_row(spark: Any, shop: Shop) -> None:
    orders = shop.topic("orders", 1)
    shop.put(orders, [order(1)])
    project = shop.project(
        {"p": {"source": {"topics": [orders]}, "decode": {"schema": SCHEMA}, "sink": {"table": "lake"}}}
    )
    shop.run(spark, project)
    assert shop.read(f"{orders}.dlq") == []
    shop.put(orders, [b"nope"])
    shop.run(spark, project)
    assert [record["value"] for record in shop.read(f"{orders}.dlq")] == [b"nope"]
