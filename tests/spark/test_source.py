"""Reading topics with real Spark: batch and streams."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from penstock.client.raw.cluster import Cluster
from penstock.core.model import Header, NewRecord
from penstock.testing import Broker
from topic_fixtures import NOW_MS, connected, create, delete, grow, numbered, put

STREAM_S_MAX = 120
_numbers = itertools.count()


@pytest.fixture(scope="module")
def cluster(broker: Broker) -> Iterator[Cluster]:
    with connected(broker) as made:
        yield made


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"orders-{next(_numbers)}"
    create(cluster, name, 2)
    return name


def reading(spark: Any, broker: Broker, topic: str, **more: str) -> Any:
    return spark.read.format("penstock").options(**_options(broker, topic, more)).load()


def streaming(spark: Any, broker: Broker, topic: str, **more: str) -> Any:
    return spark.readStream.format("penstock").options(**_options(broker, topic, more)).load()


def _options(broker: Broker, topic: str, more: dict[str, str]) -> dict[str, str]:
    named = {name.replace("__", "."): value for name, value in more.items()}
    return {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, **named}


def finish(frame: Any, table: Path, checkpoint: Path) -> Any:
    """Run a stream over what is there now into files."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(table))
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    assert query.awaitTermination(STREAM_S_MAX)
    return query


def test_every_column_is_the_records(spark: Any, broker: Broker, cluster: Cluster, topic: str) -> None:
    put(cluster, topic, [NewRecord(b"k", None, (Header("h", b"x"), Header("n", None)), NOW_MS)])
    put(cluster, topic, [NewRecord(None, b"v", (), NOW_MS + 1)], partition=1, codec=4)
    frame = reading(spark, broker, topic, includeHeaders="true")
    first, second = frame.orderBy("partition").collect()
    assert bytes(first.key) == b"k"
    assert first.value is None
    assert [(one.key, one.value) for one in first.headers] == [("h", bytearray(b"x")), ("n", None)]
    assert (second.topic, second.partition, second.offset, second.timestampType) == (topic, 1, 0, 0)
    assert second.headers is None
    assert second.timestamp.timestamp() * 1000 == pytest.approx(NOW_MS + 1)
    assert "headers" not in reading(spark, broker, topic).columns


def test_bounds_and_cuts(spark: Any, broker: Broker, cluster: Cluster, topic: str) -> None:
    put(cluster, topic, numbered(100))
    put(cluster, topic, numbered(10), partition=1)

    def offsets(**more: str) -> list[tuple[int, int]]:
        frame = reading(spark, broker, topic, **more).select("partition", "offset")
        return sorted((one.partition, one.offset) for one in frame.collect())

    begin = f'{{"{topic}":{{"0":90,"1":-2}}}}'
    end = f'{{"{topic}":{{"0":95,"1":5}}}}'
    wanted = [(0, n) for n in range(90, 95)] + [(1, n) for n in range(5)]
    assert offsets(startingOffsets=begin, endingOffsets=end) == wanted
    by_time = offsets(startingTimestamp=str(NOW_MS + 8), endingTimestamp=str(NOW_MS + 50))
    assert by_time == [(0, n) for n in range(8, 50)] + [(1, 8), (1, 9)]
    cut = reading(spark, broker, topic, minPartitions="6", maxRecordsPerPartition="30")
    assert cut.selectExpr("spark_partition_id() as task").distinct().count() >= 6
    assert cut.count() == 110


def test_a_frame_that_is_filtered_still_has_all_its_rows(
    spark: Any, broker: Broker, cluster: Cluster, topic: str
) -> None:
    put(cluster, topic, numbered(10))
    put(cluster, topic, numbered(10), partition=1)
    frame = reading(spark, broker, topic)
    assert frame.where("partition = 0 and offset >= 1").count() == 9
    assert frame.count() == 20, "the same rows are read again, all of them"


def test_a_stream_reads_each_record_once_over_restarts(
    spark: Any, broker: Broker, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    put(cluster, topic, numbered(500))
    limited = {
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "200",
        "kafka__group__id": f"lag-{topic}",
    }
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    first = finish(streaming(spark, broker, topic, **limited), table, checkpoint)
    assert [one["numInputRows"] for one in first.recentProgress if one["numInputRows"]] == [200, 200, 100]
    assert (
        spark.read.parquet(str(table)).selectExpr("count(distinct partition, offset) as n").first().n == 500
    )
    grow(cluster, topic, 3)
    put(cluster, topic, numbered(7), partition=2)
    put(cluster, topic, numbered(3))
    again = finish(streaming(spark, broker, topic, **limited), table, checkpoint)
    assert sum(one["numInputRows"] for one in again.recentProgress) == 10
    rows = spark.read.parquet(str(table)).select("partition", "offset").collect()
    assert len(rows) == len({(one.partition, one.offset) for one in rows}) == 510


def test_a_topic_created_again_stops_a_stream_or_is_read_from_its_beginning(
    spark: Any, broker: Broker, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    """Longer than the checkpoint, so that offsets alone cannot tell."""
    put(cluster, topic, numbered(5))
    table, checkpoint = tmp_path / "table", tmp_path / "checkpoint"
    finish(streaming(spark, broker, topic, startingOffsets="earliest"), table, checkpoint)
    first_id = cluster.topics([topic])[topic].topic_id
    delete(cluster, topic)
    create(cluster, topic, 2)
    put(cluster, topic, numbered(8))
    second_id = cluster.topics([topic])[topic].topic_id
    with pytest.raises(Exception, match=f"{first_id}.*{second_id}.*failOnDataLoss"):
        finish(streaming(spark, broker, topic), table, checkpoint)
    finish(streaming(spark, broker, topic, failOnDataLoss="false"), table, checkpoint)
    assert spark.read.parquet(str(table)).count() == 5 + 8
    put(cluster, topic, numbered(2))
    finish(streaming(spark, broker, topic), table, checkpoint)
    assert spark.read.parquet(str(table)).count() == 5 + 8 + 2


def test_a_running_stream_hears_of_new_records_at_once(
    spark: Any, broker: Broker, cluster: Cluster, topic: str, tmp_path: Path
) -> None:
    name = topic.replace("-", "_")
    query = (
        streaming(spark, broker, topic, startingOffsets="earliest", latestOffsetWaitMs="30000")
        .writeStream.format("memory")
        .queryName(name)
        .option("checkpointLocation", str(tmp_path))
        .start()
    )
    try:
        for count in (1, 2):
            put(cluster, topic, numbered(1))
            while spark.table(name).count() < count:
                assert not query.awaitTermination(0.1), query.exception()
    finally:
        query.stop()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"subscribe": "ordres"}, "there is no topic 'ordres'"),
        ({"startingOffset": "earliest"}, "Did you mean 'startingOffsets'"),
        ({"startingOffsets": "now"}, "It must be earliest, latest or"),
        ({"startingTimestamp": "9999999999999"}, "startingOffsetsByTimestampStrategy"),
    ],
)
def test_what_cannot_be_read_is_said_in_words(
    spark: Any, broker: Broker, cluster: Cluster, topic: str, options: dict[str, str], words: str
) -> None:
    put(cluster, topic, numbered(1))
    with pytest.raises(Exception, match=words):
        reading(spark, broker, topic, **options).count()


def test_offsets_out_of_range_fail_or_become_the_nearest(
    spark: Any, broker: Broker, cluster: Cluster, topic: str
) -> None:
    put(cluster, topic, numbered(5))
    beyond = f'{{"{topic}":{{"0":2,"1":9}}}}'
    with pytest.raises(Exception, match="holds offsets 0 to 0, but 9 was requested"):
        reading(spark, broker, topic, startingOffsets=beyond).count()
    assert reading(spark, broker, topic, startingOffsets=beyond, failOnDataLoss="false").count() == 3
