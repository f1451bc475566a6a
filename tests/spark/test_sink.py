"""Writing from real Spark: jobs and queries, exactly once and at least once, and what is refused with which words."""

from __future__ import annotations

import re
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import penstock.spark
from penstock.client.access import read_access
from penstock.client.raw.batches import read_raw
from penstock.client.raw.cluster import Cluster, TopicPartition, codes_in
from penstock.client.raw.committed_offsets import committed
from penstock.client.raw.transactions import open_ids
from penstock.core.model import Header, Record
from penstock.core.records.build import open_batch
from penstock.core.records.murmur2 import partition_of
from penstock.spark.sessions import is_running
from penstock.spark.sink_options import PRODUCER_OPTIONS, SINK_OPTIONS
from penstock.testing import Broker
from penstock.wire.kafka import ApiKey, messages
from spark import places
from spark.kills import TopicTally

PARTITIONS = 3


@pytest.fixture(scope="module")
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(read_access({"bootstrap.servers": broker.bootstrap})) as connected:
        yield connected


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"t-{uuid.uuid4().hex[:8]}"
    wanted = messages.CreateTopicsRequest.CreatableTopic(
        name=name, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[]
    )
    request = messages.CreateTopicsRequest(topics=[wanted], timeout_ms=10_000)
    assert set(codes_in(cluster.ask(ApiKey.CREATE_TOPICS, request))) == {0}
    return name


def write(frame: Any, broker: Broker, topic: str, **options: Any) -> None:
    where = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic}
    frame.write.format("penstock").options(**where, **options).mode("append").save()


def values(broker: Broker, topic: str) -> Counter[str]:
    with closing(TopicTally(broker.bootstrap, topic, PARTITIONS)) as tally:
        return tally()


def records(cluster: Cluster, topic: str, partition: int) -> list[Record]:
    found = read_raw(cluster, TopicPartition(topic, partition), 0, 1 << 60)
    return [one for header, raw in found if not header.is_control for one in open_batch(raw, header)]


def numbers(spark: Any, count: int) -> Any:
    return spark.range(0, count, 1, 2).selectExpr("cast(id as string) key", "cast(id as string) value")


@pytest.mark.parametrize("delivery", ["exactly_once", "at_least_once"])
def test_a_job_writes_every_row_once(
    spark: Any, broker: Broker, cluster: Cluster, topic: str, delivery: str
) -> None:
    write(numbers(spark, 5000), broker, topic, delivery=delivery, **{"kafka.compression.type": "zstd"})
    assert values(broker, topic) == Counter(map(str, range(5000)))
    for partition in range(PARTITIONS):
        keys = [one.key or b"" for one in records(cluster, topic, partition)]
        assert {partition_of(key, PARTITIONS) for key in keys} == {partition}
    assert open_ids(cluster, "penstock-sink") == []


def test_all_columns_are_written(spark: Any, broker: Broker, cluster: Cluster, topic: str) -> None:
    rows = spark.sql(
        f"""select '{topic}' topic, 1 partition, 'k' key, binary('v') value,
        timestamp_millis(1700000000123) timestamp,
        array(named_struct('key', 'a', 'value', binary('1'))) headers"""
    )
    rows.write.format("penstock").option("kafka.bootstrap.servers", broker.bootstrap).mode("append").save()
    expected = Record(0, 1_700_000_000_123, b"k", b"v", (Header("a", b"1"),))
    assert records(cluster, topic, 1) == [expected]


def test_what_was_read_can_be_written_as_it_is(
    spark: Any, broker: Broker, cluster: Cluster, topic: str
) -> None:
    write(numbers(spark, 100), broker, topic)
    reader = spark.read.format("penstock").option("kafka.bootstrap.servers", broker.bootstrap)
    write(reader.option("subscribe", topic).load(), broker, topic)
    assert set(values(broker, topic).values()) == {2}


def test_a_named_job_counts_once_however_often_it_runs(
    spark: Any, broker: Broker, cluster: Cluster, topic: str
) -> None:
    app = f"nightly-{topic}"
    for version in (3, 3, 2, 4):
        write(numbers(spark, 50), broker, topic, txnAppId=app, txnVersion=version)
    assert values(broker, topic) == Counter({str(number): 2 for number in range(50)})
    assert committed(cluster, f"penstock-sink-{app}")[TopicPartition(topic, 0)].offset == 4


def test_a_job_that_fails_leaves_nothing_behind(
    spark: Any, broker: Broker, cluster: Cluster, topic: str
) -> None:
    broken = "if(id = 3999, cast(raise_error('broken row') as string), cast(id as string)) value"
    with pytest.raises(Exception, match="broken row"):
        write(spark.range(0, 4000, 1, 2).selectExpr(broken), broker, topic)
    write(numbers(spark, 10), broker, topic)
    assert values(broker, topic) == Counter(map(str, range(10)))
    assert open_ids(cluster, "penstock-sink") == []


def run_query(spark: Any, broker: Broker, source: str, target: str, checkpoint: Path) -> Any:
    where = {"kafka.bootstrap.servers": broker.bootstrap}
    reader = spark.readStream.format("penstock").options(**where).option("subscribe", source)
    rows = reader.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", "70").load()
    writer = rows.select("key", "value").writeStream.format("penstock").options(**where)
    query = (
        writer.option("topic", target)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(120)
    return query


def test_a_query_copies_once_even_if_spark_forgets_that_it_was_done(
    spark: Any, broker: Broker, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    source = f"{topic}-in"
    wanted = messages.CreateTopicsRequest.CreatableTopic(
        name=source, num_partitions=PARTITIONS, replication_factor=1, assignments=[], configs=[]
    )
    cluster.ask(ApiKey.CREATE_TOPICS, messages.CreateTopicsRequest(topics=[wanted], timeout_ms=10_000))
    write(numbers(spark, 200), broker, source)
    query = run_query(spark, broker, source, topic, tmp_path / "checkpoint")
    last = max(int(path.name) for path in (tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    for path in (tmp_path / "checkpoint" / "commits").glob(f"*{last}*"):
        path.unlink()
    again = run_query(spark, broker, source, topic, tmp_path / "checkpoint")
    assert again.id == query.id
    assert values(broker, topic) == Counter(map(str, range(200)))
    assert committed(cluster, f"penstock-sink-{query.id}")[TopicPartition(topic, 0)].offset == last
    assert open_ids(cluster, "penstock-sink") == []


def in_thread(work: Callable[[], Any]) -> Any:
    """Do this in a Python thread that Spark has not seen yet."""
    with ThreadPoolExecutor(1) as fresh:
        return fresh.submit(work).result()


def test_every_thread_can_write(
    spark: Any, broker: Broker, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    rows = numbers(spark, 20)
    in_thread(lambda: write(rows, broker, topic))
    in_thread(lambda: run_query(spark, broker, topic, topic, tmp_path / "checkpoint"))
    assert values(broker, topic) == Counter({str(number): 2 for number in range(20)})


@pytest.mark.skipif(places.IS_REMOTE, reason="over Connect a process may have several sessions")
def test_a_thread_gets_the_session_of_the_process(spark: Any) -> None:
    assert in_thread(penstock.spark.session) is spark
    assert in_thread(is_running)


@pytest.mark.parametrize(
    ("columns", "options", "words"),
    [
        ("id", {}, "to_json"),
        ("id value", {}, "'value' has type bigint"),
        ("cast(id as string) value", {"topik": "x"}, "Did you mean 'topic'"),
        ("cast(id as string) value", {"kafka.acks": "0"}, "must be 'all'"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_is(
    spark: Any, broker: Broker, topic: str, columns: str, options: dict[str, str], words: str
) -> None:
    with pytest.raises(Exception, match=words):
        write(spark.range(1).selectExpr(columns), broker, topic, **options)


def test_a_topic_cannot_be_overwritten(spark: Any, broker: Broker, topic: str) -> None:
    where = {"kafka.bootstrap.servers": broker.bootstrap, "topic": topic}
    writer = numbers(spark, 1).write.format("penstock").options(**where)
    with pytest.raises(Exception, match="append"):
        writer.mode("overwrite").save()


def test_a_topic_that_is_not_there_is_missed_with_the_nearest_name(
    spark: Any, broker: Broker, topic: str
) -> None:
    with pytest.raises(Exception, match=f"Did you mean '{topic}'"):
        write(numbers(spark, 1), broker, topic + "x")


def test_every_option_for_writing_has_its_row() -> None:
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text("utf-8")
    table = page.partition("### Options for writing")[2].partition("## When")[0]
    written = set(re.findall(r"`([A-Za-z.]+)`", table))
    assert {*SINK_OPTIONS, *(f"kafka.{name}" for name in PRODUCER_OPTIONS)} <= written
