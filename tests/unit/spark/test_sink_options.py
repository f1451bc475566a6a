"""What a sink is told: every option is used or refused, every column written or refused, with words that help."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampType,
)

from penstock.client.errors import BadArgument
from penstock.core.codecs import ZSTD
from penstock.spark.sink_options import check_columns, read_sink_options

WHERE = {"kafka.bootstrap.servers": "127.0.0.1:9092", "topic": "out"}


TYPES: dict[str, DataType] = {
    "binary": BinaryType(),
    "headers": ArrayType(StructType().add("key", StringType()).add("value", BinaryType())),
    "int": IntegerType(),
    "bigint": LongType(),
    "map": MapType(StringType(), StringType()),
    "string": StringType(),
    "timestamp": TimestampType(),
}


def schema(text: str) -> StructType:
    """`key binary, value string`: columns and their types."""
    made = StructType()
    for column in text.split(", "):
        name, kind = column.split()
        made.add(name, TYPES[kind])
    return made


def test_everything_that_is_given_is_read() -> None:
    found = read_sink_options(
        {
            **WHERE,
            "delivery": "exactly_once",
            "includeHeaders": "false",
            "txnAppId": "nightly",
            "txnVersion": "7",
            "transactionalIdPrefix": "team",
            "checkpointLocation": "x",
            "kafka.acks": "all",
            "kafka.batch.size": "1000",
            "kafka.buffer.memory": "9999",
            "kafka.compression.type": "zstd",
            "kafka.delivery.timeout.ms": "5000",
            "kafka.linger.ms": "5",
            "kafka.max.request.size": "2000",
            "kafka.transaction.timeout.ms": "60000",
        }
    )
    terms = found.terms
    assert (terms.topic, terms.has_headers, terms.codec) == ("out", False, ZSTD)
    assert (terms.batch_bytes, terms.request_bytes_max, terms.buffer_bytes_max) == (1000, 2000, 9999)
    assert (terms.linger_ms, found.transaction_ms_max, found.access.call_ms_max) == (5, 60_000, 5000)
    assert (found.prefix, found.app, found.version, found.is_exactly_once) == ("team", "nightly", 7, True)


def test_a_batch_is_never_larger_than_a_request() -> None:
    assert read_sink_options({**WHERE, "kafka.max.request.size": "5000"}).terms.batch_bytes == 5000


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"kafka.bootstrap.servers": ""}, "HOST:PORT"),
        ({"topik": "x"}, "Did you mean 'topic'"),
        ({"kafka.compresion.type": "lz4"}, r"Did you mean 'kafka\.compression\.type'"),
        ({"kafka.compression.type": "rar"}, "none, gzip, snappy, lz4, zstd"),
        ({"delivery": "twice"}, "exactly_once, at_least_once"),
        ({"kafka.acks": "1"}, "must be 'all'"),
        ({"includeHeaders": "maybe"}, "true or false"),
        ({"kafka.batch.size": "many"}, "expected an integer"),
        ({"txnAppId": "a"}, "belong together"),
        ({"txnVersion": "1"}, "belong together"),
        ({"txnAppId": "a/b", "txnVersion": "1"}, "without '/'"),
        ({"txnAppId": "a", "txnVersion": "-1"}, "at least 0"),
        ({"txnAppId": "a", "txnVersion": "1", "delivery": "at_least_once"}, "cannot be combined with"),
    ],
    ids=lambda one: str(one)[:40],
)
def test_what_cannot_be_is_refused_with_what_to_do(given: dict[str, str], words: str) -> None:
    with pytest.raises(BadArgument, match=words):
        read_sink_options({**WHERE, **given})


def test_without_a_broker_nothing_can_be_written() -> None:
    with pytest.raises(BadArgument, match=r"kafka\.bootstrap\.servers"):
        read_sink_options({"topic": "out"})


@pytest.mark.parametrize(
    "columns",
    [
        "value string",
        "key binary, value binary, topic string, partition int, timestamp timestamp",
        "value binary, headers headers",
        "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
        "timestampType int",
    ],
)
def test_rows_that_can_be_written(columns: str) -> None:
    check_columns(schema(columns), read_sink_options(WHERE))


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ("id bigint, name string", r"to_json\(struct\(\*\)\) AS value"),
        ("value bigint", "'value' has type bigint; it must be binary or string"),
        ("value string, valu string", "Did you mean 'value'"),
        ("value string, partition bigint", "it must be int: cast it"),
        ("value string, headers map", "array<struct"),
    ],
)
def test_rows_that_cannot(columns: str, words: str) -> None:
    with pytest.raises(BadArgument, match=words):
        check_columns(schema(columns), read_sink_options(WHERE))


def test_rows_need_a_topic() -> None:
    with pytest.raises(BadArgument, match="no topic is set"):
        check_columns(schema("value string"), read_sink_options({**WHERE, "topic": ""}))
