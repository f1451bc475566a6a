"""What goes wrong while Spark runs is told with what to do, and once it is repaired nothing is lost or there twice."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from e2e.disks import loop_disk
from penstock.spark.errors import RunFailed
from penstock.spark.pipelines.runner import started, watch
from penstock.testing import Broker, running_broker
from spark.shop import SCHEMA, Shop, order

WAIT_S_MAX = 120.0
WIDE_BYTES = 200_000
"""What a row weighs that finds no place on a full disk, whatever is left in the last block."""
IMPATIENT = {"kafka.request.timeout.ms": "2000", "kafka.default.api.timeout.ms": "4000"}


def to_lake(topic: str, **source: Any) -> dict[str, Any]:
    return {
        "lake": {
            "source": {"topics": [topic], **source},
            "decode": {"schema": SCHEMA, "bad_rows": "fail"},
            "sink": {"table": "lake", "keep_raw": True},
            "max_restarts": 0,
        }
    }


def ids(shop: Shop) -> list[int]:
    return sorted(row["id"] for row in shop.rows("lake", "delta", "id"))


def test_a_broker_that_goes_away_is_named_and_waited_for(spark: Any, tmp_path: Path) -> None:
    """The pipeline is restarted until the broker is back, and nothing is lost."""
    (tmp_path / "broker").mkdir()
    with running_broker(tmp_path / "broker") as broker:
        shop = Shop(broker, tmp_path, "gone")
        orders = shop.topic("orders", 2)
        shop.put(orders, [order(number) for number in range(30)])
        pipelines = to_lake(orders, rows_per_batch_max=7)
        pipelines["lake"]["max_restarts"] = "unlimited"
        project = shop.project(pipelines, options=IMPATIENT)
        with started(spark, project, project.pipelines, is_once=False) as running:
            watch(running, lambda looks: None, lambda: len(ids(shop)) > 0)
            broker.kill()
            watch(running, lambda looks: None, lambda: running[0].last.state == "restarting")
            told = running[0].last.error
            assert re.search(rf"no broker answers at {broker.bootstrap}.* Start the broker", told), told
            broker.start()
            shop.put(orders, [order(number) for number in range(30, 40)])
            watch(running, lambda looks: None, lambda: len(ids(shop)) == 40)
        assert ids(shop) == list(range(40))
        assert (running[0].last.state, running[0].last.restarts > 0) == ("stopped", True)


def test_a_full_disk_is_told_and_nothing_is_lost(spark: Any, broker: Broker, tmp_path: Path) -> None:
    with loop_disk(tmp_path, lazily=True) as disk:  # Spark forgets files that it could not write to the end
        shop = Shop(broker, disk.root, "full")
        orders = shop.topic("orders", 1)
        project = shop.project(to_lake(orders))
        shop.put(orders, [order(1)])
        shop.run(spark, project)
        ballast = disk.root / "ballast"
        with pytest.raises(OSError, match="No space"), ballast.open("wb", buffering=0) as out:
            while True:
                out.write(bytes(1 << 16))
        shop.put(orders, [order(number, customer=os.urandom(WIDE_BYTES).hex()) for number in (2, 3)])
        with pytest.raises(RunFailed, match=r"No space left on device.* free some space and run it again"):
            shop.run(spark, project)
        ballast.unlink()
        shop.run(spark, project)
        assert ids(shop) == [1, 2, 3]


def test_a_checkpoint_of_another_query_is_refused(spark: Any, shop: Shop, tmp_path: Path) -> None:
    first, second = shop.topic("first", 1), shop.topic("second", 1)
    for topic in (first, second):
        shop.put(topic, [order(1)])

    def copy(topic: str) -> Any:
        reader = spark.readStream.format("penstock").option("kafka.bootstrap.servers", shop.bootstrap)
        rows = reader.option("startingOffsets", "earliest").option("subscribe", topic).load()
        query = rows.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
        return query.trigger(availableNow=True).start()

    assert copy(first).awaitTermination(WAIT_S_MAX)
    with pytest.raises(Exception, match=rf"reads {first} partition 0.*its own checkpointLocation"):
        copy(second).awaitTermination(WAIT_S_MAX)


def test_a_row_that_a_function_cannot_take_is_named(spark: Any, shop: Shop) -> None:
    orders = shop.topic("orders", 1)
    (shop.home / "picky_of_test.py").write_text(
        "from pyspark.sql.functions import udf\n"
        "def check(number):\n"
        "    if number == 7:\n"
        "        raise ValueError('seven is not for me')\n"
        "    return number\n"
        "def picky(rows):\n"
        "    return rows.withColumn('id', udf(check, 'bigint')('id'))\n"
    )
    shop.put(orders, [order(7)])
    pipelines = to_lake(orders)
    pipelines["lake"]["steps"] = [{"python": "picky_of_test:picky"}]
    with pytest.raises(RunFailed, match=r"^lake: ValueError: seven is not for me$"):
        shop.run(spark, shop.project(pipelines))


def test_a_topic_that_is_not_there_is_missed_with_the_nearest_name(spark: Any, shop: Shop) -> None:
    orders = shop.topic("orders", 1)
    with pytest.raises(RunFailed, match=rf"there is no topic '{orders}x'\. Did you mean '{orders}'"):
        shop.run(spark, shop.project(to_lake(f"{orders}x")))
