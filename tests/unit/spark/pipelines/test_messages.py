"""Small parts without Spark: reasons of dead letters, pieces of history, progress, Avro, columns, options."""

from __future__ import annotations

import json

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.errors import WrongDefinition
from penstock.spark.pipelines.avro import decode_values, read_avro_schema
from penstock.spark.pipelines.ddl import split_columns
from penstock.spark.pipelines.dead_letters import reason
from penstock.spark.pipelines.failures import describe_failure
from penstock.spark.pipelines.history import pieces
from penstock.spark.pipelines.metrics import PipelineMetrics
from penstock.spark.pipelines.progress import read_progress, rows_in
from penstock.spark.pipelines.topics import starting_offsets


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (b"nope", "the value is not valid JSON: Expecting value"),
        (b"\xff\xfe\xfd", "the value is not valid UTF-8"),
        (b"[1]", "the value is not a JSON object but a list"),
        (b'{"id": "x", "amount": 1}', 'id should be bigint but is "x"'),
        (b'{"id": 1, "amount": true}', "amount should be double but is true"),
        (
            b'{"id": 1.5, "tags": {}}',
            "id should be bigint but is 1.5; tags should be array<string> but is {}",
        ),
    ],
)
def test_reasons_name_the_column(value: bytes, words: str) -> None:
    assert words in reason(value, ["id bigint", "amount double", "tags array<string>"])


places = st.tuples(st.sampled_from(["a", "b"]), st.integers(0, 3))
spans = st.dictionaries(places, st.tuples(st.integers(0, 50), st.integers(0, 50)), max_size=6)


@given(spans, st.integers(1, 40))
def test_pieces_cover_every_offset_once_and_in_order(
    drawn: dict[tuple[str, int], tuple[int, int]], rows_max: int
) -> None:
    given_spans = {place: (low, low + count) for place, (low, count) in drawn.items()}
    seen: dict[tuple[str, int], list[int]] = {place: [] for place in given_spans}
    for piece in pieces(given_spans, rows_max):
        assert sum(high - low for low, high in piece.values()) <= max(rows_max, len(given_spans))
        for place, (low, high) in piece.items():
            seen[place].extend(range(low, high))
    assert seen == {place: list(range(low, high)) for place, (low, high) in given_spans.items()}


def test_progress_reads_what_spark_tells() -> None:
    told = {
        "batchId": 3,
        "durationMs": {"triggerExecution": 500},
        "sources": [
            {
                "numInputRows": 100,
                "endOffset": '{"orders": {"0": 50, "1": 40}}',
                "latestOffset": {"orders": {"0": 70, "1": 40}},
            }
        ],
        "stateOperators": [{"numRowsTotal": 5, "memoryUsedBytes": 1000}],
        "eventTime": {"watermark": "2026-01-01T00:00:00.000Z"},
    }
    look = read_progress("p", told, 300, "running")
    assert (look.batch, look.rows, look.rows_total, look.rows_per_s, look.lag) == (
        3,
        100,
        300,
        200.0,
        {"orders": 20},
    )
    assert (look.state_rows, look.state_bytes) == (5, 1000)
    assert json.loads(json.dumps(look.plain()))["watermark"].startswith("2026")
    metrics = PipelineMetrics()
    metrics.show([look])
    assert (
        metrics.registry.get_sample_value(
            "penstock_pipeline_lag_records", {"pipeline": "p", "topic": "orders"}
        )
        == 20
    )
    assert read_progress("p", None, 7, "running").rows_total == 7


def test_rows_are_counted_by_offsets() -> None:
    later = {"startOffset": '{"a": {"0": 5}}', "endOffset": '{"a": {"0": 9}}', "numInputRows": 8}
    first = {"startOffset": None, "endOffset": '{"#from": {"a": {"0": 2}}, "a": {"0": 5}}', "numInputRows": 6}
    grown = {"startOffset": {"a": {"0": 5}}, "endOffset": {"#from": {"a": {"1": 0}}, "a": {"0": 6, "1": 4}}}
    assert [rows_in({"sources": [one]}) for one in (later, first, grown, {"numInputRows": 3})] == [4, 3, 5, 3]


def test_a_batch_without_records_is_counted_as_none() -> None:
    end = '{"#from": {"a": {"0": 0}}, "a": {"0": 10}}'
    assert rows_in({"sources": [{"startOffset": None, "endOffset": end}]}) == 10
    assert rows_in({"sources": [{"startOffset": end, "endOffset": end}]}) == 0


def test_a_source_that_is_read_for_two_outputs_is_counted_once() -> None:
    read = {
        "startOffset": '{"a": {"0": 5}}',
        "endOffset": '{"a": {"0": 9}}',
        "latestOffset": {"a": {"0": 19}},
    }
    look = read_progress("p", {"batchId": 1, "sources": [read, read]}, 4, "running")
    assert (look.rows, look.lag) == (4, {"a": 10})


def test_avro_values_and_what_is_wrong_with_them() -> None:
    schema = {
        "type": "record",
        "name": "order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "note", "type": ["null", "string"]},
            {
                "name": "price",
                "type": {"type": "bytes", "logicalType": "decimal", "precision": 8, "scale": 2},
            },
            {"name": "tags", "type": {"type": "array", "items": "string"}},
        ],
    }
    parsed, columns = read_avro_schema(json.dumps(schema))
    assert [field.name for field in columns] == ["id", "note", "price", "tags"]
    assert columns.field("price").type == pa.decimal128(8, 2)
    rows, errors = decode_values([b"", b"\x02", None], parsed, 0)
    assert rows == [None, None, None]
    assert [error is None for error in errors] == [False, False, True]
    _, errors = decode_values([b"\x01abcdefg", b"\x00"], parsed, 5)
    assert errors == ["not valid Avro for this schema: the value does not start with a schema id"] * 2
    assert fastavro.parse_schema(schema)


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ("{", "is not a valid Avro schema"),
        ('"string"', "is not a record"),
        (
            '{"type":"record","name":"a","fields":[{"name":"x","type":["int","string"]}]}',
            "a union of int, string",
        ),
    ],
)
def test_avro_schemas_that_are_no_columns(schema: str, words: str) -> None:
    with pytest.raises(WrongDefinition, match=words):
        read_avro_schema(schema)


def test_columns_are_split_outside_of_brackets() -> None:
    assert split_columns("a int, b struct<c:int,d:decimal(3,2)>, e map<string,int>") == [
        "a int",
        "b struct<c:int,d:decimal(3,2)>",
        "e map<string,int>",
    ]


def test_live_begins_where_history_ends() -> None:
    told = starting_offsets({("a", 0): (3, 10), ("a", 1): (0, 7)}, [("a", 0), ("a", 1), ("a", 2)])
    assert json.loads(told) == {"a": {"0": 10, "1": 7, "2": -2}}


def test_what_spark_says_comes_with_what_to_do() -> None:
    told = describe_failure("p", "Job aborted\njava.io.IOException: No space left on device\n at x")
    assert told == (
        "p: java.io.IOException: No space left on device "
        "The disk is full: free some space and run it again; it continues where it stopped."
    )
    told = describe_failure(
        "p", "a\nTraceback\npenstock.spark.errors.BadRows: p: rows that cannot be used\nb"
    )
    assert told == "p: rows that cannot be used"
    assert describe_failure("p", "x\npyspark.errors.AnalysisException: [NO] so\n\tat y") == (
        "p: pyspark.errors.AnalysisException: [NO] so"
    )
    quoted = (
        'raise Unreachable("; ".join(failures))\npenstock.client.errors.Unreachable: no broker answers at x:1'
    )
    assert describe_failure("p", quoted).startswith("p: no broker answers at x:1 Start the broker")
    assert describe_failure("p", "") == "p: no error message"


def test_the_state_of_a_query_is_not_its_cause() -> None:
    around = (
        "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: {cause} SQLSTATE: XXKST\n"
        "=== Streaming Query ===\nIdentifier: p\n\nCurrent State: ACTIVE\nThread State: RUNNABLE\n"
    )
    told = describe_failure(
        "p", around.format(cause="Job aborted due to stage failure: Task 0 lost\n\tat org.apache")
    )
    assert told == "p: Job aborted due to stage failure: Task 0 lost"
    inside = "Error\njava.lang.IllegalStateException: State is gone\n\tat org.apache.spark.X"
    assert (
        describe_failure("p", around.format(cause=inside))
        == "p: java.lang.IllegalStateException: State is gone"
    )
