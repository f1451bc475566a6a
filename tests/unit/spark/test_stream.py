"""How far each batch of a stream goes, against a real broker and without Spark's JVM."""

from __future__ import annotations

import itertools
import json
import threading
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows

from penstock.client.errors import BadArgument, NotFound, RecordsLost
from penstock.client.raw.cluster import Cluster, TopicPartition
from penstock.client.raw.committed_offsets import committed
from penstock.client.raw.fetch import Span
from penstock.spark.checkpoint import FROM, IDS
from penstock.spark.options import read_options
from penstock.spark.stream import StreamReader, share_of
from penstock.testing import Broker
from topic_fixtures import create, delete, forget, grow, numbered, put

ALL = ReadAllAvailable()
_numbers = itertools.count()


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"orders-{next(_numbers)}"
    create(cluster, name, 2)
    return name


def reader(broker: Broker, topic: str, **more: str) -> StreamReader:
    options = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, "latestOffsetWaitMs": "50"}
    named = {name.replace("__", "."): value for name, value in more.items()}
    return StreamReader(read_options({**options, **named}, is_stream=True))


def latest(source: StreamReader, start: dict[str, Any], limit: ReadLimit = ALL) -> dict[str, Any]:
    """As Spark has it: through JSON."""
    found: dict[str, Any] = json.loads(json.dumps(source.latestOffset(start, limit)))
    return found


def spans(source: StreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[Span]:
    """Without the ids that they carry."""
    return [one.value._replace(topic_id="") for one in source.partitions(start, end)]


def test_the_first_batch_carries_where_it_began(broker: Broker, cluster: Cluster, topic: str) -> None:
    put(cluster, topic, numbered(3))
    source = reader(broker, topic)
    start = source.initialOffset()
    end = latest(source, start)
    assert end[topic] == {"0": 3, "1": 0}
    assert spans(source, start, end) == []
    put(cluster, topic, numbered(2), partition=1)
    second = latest(source, end)
    died = reader(broker, topic)
    again = died.initialOffset()
    assert again[topic] == {"0": 3, "1": 2}, "a start at the end is another one now"
    assert spans(died, again, end) == []
    assert spans(died, end, second) == [Span(topic, 1, 0, 2)]


def test_a_first_batch_that_is_run_again_reads_the_same(broker: Broker, cluster: Cluster, topic: str) -> None:
    source = reader(broker, topic)
    start = source.initialOffset()
    put(cluster, topic, numbered(5))
    end = latest(source, start)
    put(cluster, topic, numbered(5))
    died = reader(broker, topic)
    assert spans(died, died.initialOffset(), end) == [Span(topic, 0, 0, 5)]


def test_nothing_new_is_no_batch_and_a_record_ends_the_wait(
    broker: Broker, cluster: Cluster, topic: str
) -> None:
    source = reader(broker, topic, latestOffsetWaitMs="20000")
    begun = latest(source, source.initialOffset())
    late = threading.Timer(0.2, put, (cluster, topic, numbered(1)))
    late.start()
    assert latest(source, begun)[topic] == {"0": 1, "1": 0}
    late.join()
    quiet = reader(broker, topic)
    end = latest(quiet, quiet.initialOffset())
    assert latest(quiet, end) == end


def test_limits_are_shared_by_what_is_left(broker: Broker, cluster: Cluster, topic: str) -> None:
    put(cluster, topic, numbered(90))
    put(cluster, topic, numbered(10), partition=1)
    source = reader(broker, topic, startingOffsets="earliest", maxOffsetsPerTrigger="20")
    limit = source.getDefaultReadLimit()
    assert limit == ReadMaxRows(20)
    first = latest(source, source.initialOffset(), limit)
    assert first[topic] == {"0": 18, "1": 2}
    assert latest(source, first, ALL)[topic] == {"0": 90, "1": 10}, "Trigger.Once takes all"


def test_few_offsets_wait_until_there_are_enough_or_it_is_late(
    broker: Broker, cluster: Cluster, topic: str
) -> None:
    patient = reader(broker, topic, minOffsetsPerTrigger="5", maxTriggerDelay="1h")
    hasty = reader(broker, topic, minOffsetsPerTrigger="5", maxTriggerDelay="0ms")
    begun = latest(patient, patient.initialOffset())
    put(cluster, topic, numbered(3))
    assert latest(patient, begun) == begun
    assert latest(hasty, begun)[topic] == {"0": 3, "1": 0}
    put(cluster, topic, numbered(3))
    assert latest(patient, begun)[topic] == {"0": 6, "1": 0}


def test_bytes_are_limited_by_what_records_weigh(broker: Broker, cluster: Cluster, topic: str) -> None:
    for _ in range(20):
        put(cluster, topic, [b"x" * 1000] * 10)
    source = reader(broker, topic, startingOffsets="earliest", maxBytesPerTrigger="50000")
    end = latest(source, source.initialOffset(), source.getDefaultReadLimit())
    assert 40 <= end[topic]["0"] <= 50


def test_new_partitions_are_read_from_their_beginning(broker: Broker, cluster: Cluster, topic: str) -> None:
    source = reader(broker, topic)
    begun = latest(source, source.initialOffset())
    grow(cluster, topic, 3)
    put(cluster, topic, numbered(4), partition=2)
    end = latest(source, begun)
    assert end[FROM] == {topic: {"2": 0}}
    assert spans(source, begun, end) == [Span(topic, 2, 0, 4)]
    assert latest(source, end) == end


def test_available_now_stops_where_the_log_ended(broker: Broker, cluster: Cluster, topic: str) -> None:
    put(cluster, topic, numbered(4))
    source = reader(broker, topic, startingOffsets="earliest", maxOffsetsPerTrigger="3")
    source.prepareForTriggerAvailableNow()
    put(cluster, topic, numbered(4))
    limit = source.getDefaultReadLimit()
    first = latest(source, source.initialOffset(), limit)
    second = latest(source, first, limit)
    assert (first[topic]["0"], second[topic]["0"]) == (3, 4)
    assert latest(source, second, limit) == second


def test_a_group_is_told_what_is_done(broker: Broker, cluster: Cluster, topic: str) -> None:
    source = reader(broker, topic, startingOffsets="earliest", kafka__group__id=f"lag-{topic}")
    put(cluster, topic, numbered(4))
    end = latest(source, source.initialOffset())
    assert committed(cluster, f"lag-{topic}") == {}
    latest(source, end)
    told = {place: one.offset for place, one in committed(cluster, f"lag-{topic}").items()}
    assert told == {TopicPartition(topic, 0): 4, TopicPartition(topic, 1): 0}


def test_records_that_are_gone_end_the_query_or_are_skipped(
    broker: Broker, cluster: Cluster, topic: str
) -> None:
    put(cluster, topic, numbered(10))
    strict = reader(broker, topic, startingOffsets="earliest")
    lenient = reader(broker, topic, startingOffsets="earliest", failOnDataLoss="false")
    start = strict.initialOffset()
    end = latest(strict, start)
    forget(cluster, topic, 0, 6)
    with pytest.raises(
        RecordsLost, match=r"offset 0 was deleted by retention, the log starts at 6.*failOnDataLoss"
    ):
        spans(strict, start, end)
    assert spans(lenient, start, end) == [Span(topic, 0, 6, 10)]


def replace(cluster: Cluster, topic: str, partitions: int = 2) -> None:
    delete(cluster, topic)
    create(cluster, topic, partitions)


def topic_id(cluster: Cluster, topic: str) -> str:
    return cluster.topics([topic])[topic].topic_id


@pytest.mark.parametrize("count", [4, 10, 30])
def test_a_topic_created_again_fails_with_both_ids(
    broker: Broker, cluster: Cluster, topic: str, count: int
) -> None:
    put(cluster, topic, numbered(10))
    source = reader(broker, topic, startingOffsets="earliest")
    end = latest(source, source.initialOffset())
    first_id = topic_id(cluster, topic)
    delete(cluster, topic)
    with pytest.raises(NotFound, match="there is no topic"):
        latest(source, end)
    create(cluster, topic, 2)
    put(cluster, topic, numbered(count))
    words = rf"{first_id}.*{topic_id(cluster, topic)}.*failOnDataLoss.*new checkpoint"
    for _ in range(2):
        with pytest.raises(RecordsLost, match=words):
            latest(source, end)


@pytest.mark.parametrize(("count", "partitions"), [(4, 2), (10, 2), (30, 2), (30, 1), (30, 3)])
def test_a_topic_created_again_is_read_from_its_beginning_if_records_may_be_lost(
    broker: Broker,
    cluster: Cluster,
    topic: str,
    count: int,
    partitions: int,
    caplog: pytest.LogCaptureFixture,
) -> None:
    put(cluster, topic, numbered(10))
    lenient = reader(broker, topic, startingOffsets="earliest", failOnDataLoss="false")
    end = latest(lenient, lenient.initialOffset())
    replace(cluster, topic, partitions)
    put(cluster, topic, numbered(count))
    anew = latest(lenient, end)
    assert spans(lenient, end, anew) == [Span(topic, 0, 0, count)]
    put(cluster, topic, numbered(1))
    more = latest(lenient, anew)
    assert spans(lenient, anew, more) == [Span(topic, 0, count, count + 1)]
    assert len([one for one in caplog.messages if "deleted and recreated" in one]) == 1


def test_only_the_topic_that_was_created_again_begins_anew(
    broker: Broker, cluster: Cluster, topic: str
) -> None:
    other = f"{topic}-b"
    create(cluster, other, 1)
    put(cluster, topic, numbered(5))
    put(cluster, other, numbered(5))
    group = f"lag-{topic}"
    options = {"startingOffsets": "earliest", "failOnDataLoss": "false", "kafka__group__id": group}
    lenient = reader(broker, f"{topic},{other}", **options)
    end = latest(lenient, lenient.initialOffset())
    replace(cluster, other, 1)
    put(cluster, other, numbered(9))
    put(cluster, topic, numbered(1))
    anew = latest(lenient, end)
    assert spans(lenient, end, anew) == [Span(topic, 0, 5, 6), Span(other, 0, 0, 9)]
    assert TopicPartition(other, 0) not in committed(cluster, group), (
        "the old offset is not one of the new topic"
    )


def test_a_batch_that_is_run_again_never_reads_another_topic(
    broker: Broker, cluster: Cluster, topic: str
) -> None:
    put(cluster, topic, numbered(10))
    strict = reader(broker, topic, startingOffsets="earliest")
    lenient = reader(broker, topic, startingOffsets="earliest", failOnDataLoss="false")
    start = strict.initialOffset()
    end = latest(strict, start)
    replace(cluster, topic)
    put(cluster, topic, numbered(30))
    with pytest.raises(RecordsLost, match="deleted and recreated"):
        spans(strict, start, end)
    assert spans(lenient, start, end) == [], "the records of this batch are gone"
    assert spans(lenient, end, latest(lenient, end)) == [Span(topic, 0, 0, 30)]


def test_a_task_never_reads_a_topic_that_was_created_after_the_plan(
    broker: Broker, cluster: Cluster, topic: str
) -> None:
    put(cluster, topic, numbered(10))
    source = reader(broker, topic, startingOffsets="earliest")
    start = source.initialOffset()
    (task,) = source.partitions(start, latest(source, start))
    assert sum(batch.num_rows for batch in source.read(task)) == 10
    replace(cluster, topic)
    put(cluster, topic, numbered(30))
    with pytest.raises(RecordsLost, match="another topic has the name now"):
        list(source.read(task))


def test_available_now_notices_a_topic_created_again(broker: Broker, cluster: Cluster, topic: str) -> None:
    put(cluster, topic, numbered(10))
    source = reader(broker, topic, startingOffsets="earliest")
    end = latest(source, source.initialOffset())
    replace(cluster, topic)
    put(cluster, topic, numbered(30))
    again = reader(broker, topic, startingOffsets="earliest")
    again.prepareForTriggerAvailableNow()
    with pytest.raises(RecordsLost, match="deleted and recreated"):
        latest(again, end)


def test_a_checkpoint_without_topic_ids_goes_on_and_gets_them(
    broker: Broker, cluster: Cluster, topic: str
) -> None:
    put(cluster, topic, numbered(10))
    source = reader(broker, topic)
    old = {topic: {"0": 4, "1": 0}}
    end = latest(source, old)
    assert spans(source, old, end) == [Span(topic, 0, 4, 10)]
    assert end == {IDS: {topic: topic_id(cluster, topic)}, topic: {"0": 10, "1": 0}}
    quiet = {topic: {"0": 10, "1": 0}}
    assert latest(source, quiet) == quiet, "no batch only to note ids"
    replace(cluster, topic)
    put(cluster, topic, numbered(4))
    with pytest.raises(RecordsLost, match="the log ends at 4"):
        latest(source, quiet)
    lenient = reader(broker, topic, failOnDataLoss="false")
    assert spans(lenient, quiet, latest(lenient, quiet)) == [Span(topic, 0, 0, 4)]


def test_a_checkpoint_of_another_query_is_refused(broker: Broker, cluster: Cluster, topic: str) -> None:
    source = reader(broker, topic)
    with pytest.raises(RecordsLost, match="its own checkpointLocation"):
        latest(source, {"payments": {"0": 3}})
    with pytest.raises(BadArgument, match="did not write"):
        latest(source, {"logOffset": 3})
    with pytest.raises(BadArgument, match="not written by this source"):
        spans(source, {topic: {"0": 0}}, {topic: {"0": 1, "1": 1}})


def test_shares_add_up_and_never_exceed() -> None:
    starts = {TopicPartition("a", number): 0 for number in range(3)}
    ends = {TopicPartition("a", 0): 1, TopicPartition("a", 1): 1, TopicPartition("a", 2): 100}
    for most in range(1, 103):
        shared = share_of(starts, ends, most)
        assert sum(shared.values()) == min(most, 102)
        assert all(shared[place] <= ends[place] for place in ends)
