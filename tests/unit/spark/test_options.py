"""The connector's options as one checked value, and words for each that cannot be."""

from __future__ import annotations

import pytest

from penstock.client.errors import BadArgument, NotFound
from penstock.client.raw.cluster import TopicFound, TopicPartition
from penstock.client.raw.offsets import EARLIEST, LATEST, READ_COMMITTED, READ_UNCOMMITTED
from penstock.spark.options import TopicSelection, read_options

AT = {"kafka.bootstrap.servers": "127.0.0.1:9092", "subscribe": "orders"}
FOUND = {
    "orders": TopicFound("orders", False, {0: 0, 1: 0}),
    "payments": TopicFound("payments", False, {0: 0}),
    "__consumer_offsets": TopicFound("__consumer_offsets", True, {0: 0}),
}


def test_defaults_are_the_connectors_but_for_isolation() -> None:
    batch, stream = read_options(AT, is_stream=False), read_options(AT, is_stream=True)
    assert (batch.starting.everywhere, batch.ending.everywhere) == (EARLIEST, LATEST)
    assert stream.starting.everywhere == LATEST
    assert batch.terms.isolation == READ_COMMITTED
    assert batch.terms.fails_on_loss
    assert not batch.terms.with_headers


def test_names_have_no_case_and_values_are_read() -> None:
    read = read_options(
        {
            **AT,
            "STARTINGOFFSETS": '{"orders":{"0":5,"1":-2}}',
            "maxoffsetspertrigger": "10",
            "minOffsetsPerTrigger": "5",
            "maxTriggerDelay": "2m",
            "includeheaders": "TRUE",
            "kafka.isolation.level": "read_uncommitted",
            "kafka.group.id": "lag",
            "kafka.session.timeout.ms": "1",
            "kafkaConsumer.pollTimeoutMs": "9",
        },
        is_stream=True,
    )
    assert read.starting.offsets == {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): EARLIEST}
    assert (read.trigger_offsets_max, read.trigger_offsets_min) == (10, 5)
    assert read.trigger_delay_ms_max == 120_000
    assert read.terms.with_headers
    assert read.terms.isolation == READ_UNCOMMITTED
    assert read.terms.progress_ms_max == 9
    assert read.group == "lag"


def test_one_time_goes_before_times_and_these_before_offsets() -> None:
    times = {"startingOffsetsByTimestamp": '{"orders":{"0":7}}', "startingOffsets": "earliest"}
    assert read_options({**AT, **times}, is_stream=True).starting.times_ms == {TopicPartition("orders", 0): 7}
    both = {**times, "startingTimestamp": "9", "startingOffsetsByTimestampStrategy": "latest"}
    read = read_options({**AT, **both}, is_stream=True)
    assert read.starting.time_ms == 9
    assert read.late_time_is_latest


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"startingOffset": "earliest"}, "Did you mean 'startingOffsets'"),
        ({"kafka.bootstrap.server": "a:1"}, r"Did you mean 'kafka\.bootstrap\.servers'"),
        ({"kafka.auto.offset.reset": "latest"}, "use startingOffsets"),
        ({"kafka.value.deserializer": "x"}, "from_json"),
        ({"pushFilters": "true"}, "'pushFilters' cannot be set here: it was removed.*startingTimestamp"),
        ({"startingOffsets": "earlist"}, "Did you mean 'earliest'"),
        ({"startingOffsets": "latest"}, "nothing to read"),
        ({"endingOffsets": "earliest"}, "nothing to read"),
        ({"startingOffsets": "{"}, "is not JSON"),
        ({"startingOffsets": '{"orders":[1]}'}, "has the wrong form"),
        ({"startingOffsets": '{"orders":{"0":-3}}'}, "partition '0' of orders"),
        ({"startingOffsets": '{"order":{"0":1}}'}, "which is not read. Did you mean 'orders'"),
        ({"minPartitions": "0"}, "at least 1"),
        ({"failOnDataLoss": "maybe"}, "true or false"),
        ({"includeHeaders": "yes"}, "true or false"),
        ({"kafka.isolation.level": "dirty"}, "read_committed or read_uncommitted"),
        ({"kafka.check.crcs": "false"}, "always verified"),
        ({"maxTriggerDelay": "soon"}, "15m"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "no batch can satisfy both"),
        ({"assign": '{"orders":[0]}'}, "exactly one of"),
        ({"startingOffsetsByTimestampStrategy": "guess"}, "error, latest"),
    ],
)
def test_what_cannot_be_is_said(options: dict[str, str], words: str) -> None:
    with pytest.raises(BadArgument, match=words):
        read_options({**AT, **options}, is_stream=False)


def test_a_stream_has_no_end() -> None:
    with pytest.raises(BadArgument, match="AvailableNow"):
        read_options({**AT, "endingOffsets": "latest"}, is_stream=True)


def test_without_a_broker_or_a_topic_nothing_can_be_read() -> None:
    with pytest.raises(BadArgument, match=r"kafka\.bootstrap\.servers.*HOST:PORT"):
        read_options({"subscribe": "orders"}, is_stream=False)
    with pytest.raises(BadArgument, match="found none"):
        read_options({"kafka.bootstrap.servers": "a:1"}, is_stream=False)
    with pytest.raises(BadArgument, match="not a valid regular expression"):
        read_options({"kafka.bootstrap.servers": "a:1", "subscribePattern": "("}, is_stream=False)
    with pytest.raises(BadArgument, match="names no partitions"):
        read_options({"kafka.bootstrap.servers": "a:1", "assign": '{"orders":0}'}, is_stream=False)


def test_topics_are_chosen_by_name_pattern_or_partition() -> None:
    assert TopicSelection(names=("orders",)).choose(FOUND) == [
        TopicPartition("orders", 0),
        TopicPartition("orders", 1),
    ]
    assert TopicSelection(pattern=".*s").choose(FOUND) == [
        TopicPartition("orders", 0),
        TopicPartition("orders", 1),
        TopicPartition("payments", 0),
    ]
    assert TopicSelection(places=(TopicPartition("orders", 1),)).choose(FOUND) == [
        TopicPartition("orders", 1)
    ]
    with pytest.raises(NotFound, match="Did you mean 'orders'"):
        TopicSelection(names=("order",)).choose(FOUND)
    with pytest.raises(NotFound, match="no partition 7: it has 0 to 1"):
        TopicSelection(places=(TopicPartition("orders", 7),)).choose(FOUND)
