"""Three brokers, each of them killed with -9 and restarted while Spark works: each record comes out exactly once."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

from penstock.spark.pipelines.runner import started, watch
from penstock.testing import Broker, Cluster, running_cluster
from spark.kills import TopicTally
from spark.shop import SCHEMA, Shop, order

PARTITIONS = 6
ROUND = 60
BATCH_ROWS = 20_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with running_cluster(brokers=3) as running:
        yield running


@pytest.fixture
def shop(cluster: Cluster, tmp_path: Path, request: pytest.FixtureRequest) -> Shop:
    return Shop(cluster, tmp_path, request.node.name)


def restart(broker: Broker) -> None:
    broker.kill()
    broker.start()


def ids(tally: TopicTally) -> Counter[int]:
    """How often each order is in a topic."""
    return Counter({json.loads(value)["id"]: count for value, count in tally().items()})


def stream(spark: Any, shop: Shop, source: str, target: str) -> Any:
    """A query that copies a topic."""
    where = {"kafka.bootstrap.servers": shop.bootstrap}
    reader = spark.readStream.format("penstock").options(**where, subscribe=source)
    rows = reader.options(startingOffsets="earliest", maxOffsetsPerTrigger="30").load()
    writer = rows.select("key", "value").writeStream.format("penstock").options(**where, topic=target)
    return writer.option("checkpointLocation", str(shop.home / "checkpoint")).start()


def test_streams_and_pipelines(spark: Any, cluster: Cluster, shop: Shop) -> None:
    """A query to a topic, a pipeline to a topic and one to a table, all at once."""
    source, streamed, piped = (shop.topic(name, PARTITIONS) for name in ("in", "streamed", "piped"))
    common = {"source": {"topics": [source], "rows_per_batch_max": 30}, "decode": {"schema": SCHEMA}}
    sinks = {"lake": {"table": "lake"}, "topic": {"topic": piped}}
    project = shop.project({name: {**common, "sink": sink} for name, sink in sinks.items()})
    with ExitStack() as stack:
        tallies = [
            stack.enter_context(closing(TopicTally(shop.bootstrap, topic, PARTITIONS)))
            for topic in (streamed, piped)
        ]

        def found() -> list[Counter[int]]:
            return [Counter(row["id"] for row in shop.rows("lake", "delta", "id")), *map(ids, tallies)]

        query = stream(spark, shop, source, streamed)
        stack.callback(query.stop)
        running = stack.enter_context(started(spark, project, project.pipelines, is_once=False))
        for number, broker in enumerate(cluster.brokers):
            shop.put(source, [order(one) for one in range(number * ROUND, (number + 1) * ROUND)])
            watch(running, lambda _: None, lambda seen=number * ROUND: min(map(len, found())) > seen)
            restart(broker)
        fed = ROUND * len(cluster.brokers)
        watch(running, lambda _: None, lambda: min(map(len, found())) == fed or not query.isActive)
        assert query.exception() is None
        assert found() == [Counter(range(fed))] * 3


def test_batches(spark: Any, cluster: Cluster, shop: Shop) -> None:
    """Written by one job and copied by another, while brokers go away and come back."""
    written, copied = shop.topic("written", PARTITIONS), shop.topic("copied", PARTITIONS)
    where = {"kafka.bootstrap.servers": shop.bootstrap}
    numbers = spark.range(0, BATCH_ROWS, 1, 2).selectExpr("cast(id as string) value")
    topic = spark.read.format("penstock").options(**where, subscribe=written)
    for rows, target, broker in (
        (lambda: numbers, written, cluster.broker(1)),
        (lambda: topic.load().select("value"), copied, cluster.broker(2)),
    ):
        killer = threading.Thread(target=restart, args=[broker])
        killer.start()
        rows().write.format("penstock").options(**where, topic=target).mode("append").save()
        killer.join()
        with closing(TopicTally(shop.bootstrap, target, PARTITIONS)) as tally:
            assert tally() == Counter(map(str, range(BATCH_ROWS)))
