"""What a batch read plans and what its tasks read, against a real broker and without Spark's JVM."""

from __future__ import annotations

import itertools
import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.errors import BadArgument, RecordsLost
from penstock.client.raw.cluster import Cluster
from penstock.client.raw.fetch import Span
from penstock.spark.bounds import cut
from penstock.spark.options import ReadOptions, read_options
from penstock.spark.reader import BatchReader
from penstock.testing import Broker
from topic_fixtures import NOW_MS, create, delete, numbered, put

_numbers = itertools.count()


@pytest.fixture
def topic(cluster: Cluster) -> str:
    name = f"orders-{next(_numbers)}"
    create(cluster, name, 2)
    put(cluster, name, numbered(100))
    put(cluster, name, numbered(10), partition=1)
    return name


def options(broker: Broker, topic: str, **more: str) -> ReadOptions:
    given = {"kafka.bootstrap.servers": broker.bootstrap, "subscribe": topic, **more}
    return read_options(given, is_stream=False)


def planned(reader: BatchReader) -> list[tuple[int, int, int]]:
    spans = [one.value for one in reader.partitions()]
    return [(span.partition, span.start_offset, span.end_offset) for span in spans]


def test_tasks_read_what_was_planned(broker: Broker, topic: str) -> None:
    reader = pickle.loads(pickle.dumps(BatchReader(options(broker, topic, minPartitions="5"))))
    found = []
    for task in reader.partitions():
        for batch in reader.read(task):
            columns = (batch.column(name).to_pylist() for name in ("partition", "offset"))
            found += list(zip(*columns, strict=True))
    assert sorted(found) == [(0, n) for n in range(100)] + [(1, n) for n in range(10)]
    assert len(reader.partitions()) >= 5


def test_a_task_never_reads_a_topic_that_was_created_after_the_plan(
    broker: Broker, cluster: Cluster, topic: str
) -> None:
    reader = BatchReader(options(broker, topic))
    tasks = reader.partitions()
    delete(cluster, topic)
    create(cluster, topic, 2)
    put(cluster, topic, numbered(200))
    with pytest.raises(RecordsLost, match="another topic has the name now"):
        list(reader.read(tasks[0]))


def test_bounds_by_offset_and_by_time(broker: Broker, topic: str) -> None:
    begin, end = f'{{"{topic}":{{"0":90,"1":-2}}}}', f'{{"{topic}":{{"0":95,"1":-1}}}}'
    exact = BatchReader(options(broker, topic, startingOffsets=begin, endingOffsets=end))
    assert planned(exact) == [(0, 90, 95), (1, 0, 10)]
    times = {"startingTimestamp": str(NOW_MS + 8), "endingTimestamp": str(NOW_MS + 50)}
    assert planned(BatchReader(options(broker, topic, **times))) == [(0, 8, 50), (1, 8, 10)]
    late = {"startingTimestamp": str(NOW_MS + 50)}
    with pytest.raises(BadArgument, match="partition 1 has no record at or after"):
        planned(BatchReader(options(broker, topic, **late)))
    lenient = {**late, "startingOffsetsByTimestampStrategy": "latest"}
    assert planned(BatchReader(options(broker, topic, **lenient))) == [(0, 50, 100)]


def test_offsets_that_the_log_does_not_have(broker: Broker, topic: str) -> None:
    beyond = f'{{"{topic}":{{"0":2,"1":11}}}}'
    with pytest.raises(RecordsLost, match="holds offsets 0 to 10, but 11 was requested"):
        planned(BatchReader(options(broker, topic, startingOffsets=beyond)))
    lenient = options(broker, topic, startingOffsets=beyond, failOnDataLoss="false")
    assert planned(BatchReader(lenient)) == [(0, 2, 100)]
    with pytest.raises(BadArgument, match="partition 1 is missing"):
        planned(BatchReader(options(broker, topic, startingOffsets=f'{{"{topic}":{{"0":2}}}}')))
    with pytest.raises(BadArgument, match="partition 2, which is not read or does not exist"):
        surplus = f'{{"{topic}":{{"0":2,"1":1,"2":1}}}}'
        planned(BatchReader(options(broker, topic, startingOffsets=surplus)))


@given(
    lengths=st.lists(st.integers(1, 1000), min_size=1, max_size=6),
    least=st.integers(1, 40),
    most=st.none() | st.integers(1, 300),
)
def test_cuts_leave_nothing_out(lengths: list[int], least: int, most: int | None) -> None:
    given_options = {"kafka.bootstrap.servers": "a:1", "subscribe": "t", "minPartitions": str(least)}
    if most is not None:
        given_options["maxRecordsPerPartition"] = str(most)
    spans = [Span("t", number, 7, 7 + length) for number, length in enumerate(lengths)]
    pieces = cut(spans, read_options(given_options, is_stream=False))
    assert len(pieces) >= min(least, sum(lengths))
    assert all(piece.end_offset > piece.start_offset for piece in pieces)
    if most is not None:
        assert all(piece.end_offset - piece.start_offset <= most for piece in pieces)
    read = [(piece.partition, n) for piece in pieces for n in range(piece.start_offset, piece.end_offset)]
    assert read == [(span.partition, n) for span in spans for n in range(span.start_offset, span.end_offset)]
