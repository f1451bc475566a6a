"""Decodes Avro to columns, with fastavro in Spark's Python workers. Never calls a registry: the schema is a file."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from penstock.spark.errors import ProjectProblem, WrongDefinition

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

CONFLUENT_BYTES = 5
"""Values written through a registry start with a zero byte and a schema id."""

_PLAIN = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "bytes": pa.binary(),
    "string": pa.string(),
    "null": pa.string(),
    "enum": pa.string(),
    "fixed": pa.binary(),
}
_LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("us", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "uuid": pa.string(),
}


def arrow_type(schema: Any) -> pa.DataType:
    """The column type of an Avro schema. Raises WrongDefinition if there is none."""
    if isinstance(schema, list):
        rest = [one for one in schema if one != "null"]
        if len(rest) != 1:
            raise _wrong(f"a union of {', '.join(map(str, rest))} has no column type.")
        return arrow_type(rest[0])
    if isinstance(schema, str):
        if schema not in _PLAIN:
            raise _wrong(f"unknown type {schema!r}.")
        return _PLAIN[schema]
    kind, logical = schema["type"], schema.get("logicalType")
    if logical == "decimal":
        return pa.decimal128(schema["precision"], schema.get("scale", 0))
    if logical in _LOGICAL:
        return _LOGICAL[logical]
    if kind == "record":
        return pa.struct([(field["name"], arrow_type(field["type"])) for field in schema["fields"]])
    if kind == "array":
        return pa.list_(pa.field("element", arrow_type(schema["items"])))
    if kind == "map":
        return pa.map_(pa.string(), arrow_type(schema["values"]))
    return arrow_type(kind)


def read_avro_schema(text: str) -> tuple[Any, pa.StructType]:
    """The schema of values, parsed for fastavro, and its columns. Raises WrongDefinition."""
    parsed, columns = read_any_schema(text)
    if not pa.types.is_struct(columns):
        raise _wrong("is not a record: columns are the fields of a record.")
    return parsed, columns


def read_any_schema(text: str) -> tuple[Any, pa.DataType]:
    """The schema of keys, which need not be records, parsed for fastavro, and its type. Raises WrongDefinition."""
    import fastavro
    from fastavro.schema import SchemaParseException, UnknownType

    try:
        plain = json.loads(text)
        parsed = fastavro.parse_schema(plain)
    except (json.JSONDecodeError, SchemaParseException, UnknownType) as error:
        raise _wrong(f"is not a valid Avro schema: {error}.") from error
    return parsed, arrow_type(plain)


@dataclass(frozen=True)
class AvroColumn:
    """Column names: bytes in `source` are decoded to `row`, or `error` holds the reason."""

    source: str
    row: str
    error: str


def decode_avro(placed: DataFrame, column: AvroColumn, schema: str, framing: str) -> DataFrame:
    """Add the decoded row, and the reason where decoding fails."""
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StringType, StructField, StructType

    _, kind = read_any_schema(schema)
    made = StructType(
        [
            *placed.schema.fields,
            StructField(column.row, from_arrow_type(kind, prefer_timestamp_ntz=False)),
            StructField(column.error, StringType()),
        ]
    )
    return placed.mapInArrow(_decoder(column, schema, CONFLUENT_BYTES if framing == "confluent" else 0), made)


def _decoder(
    column: AvroColumn, schema: str, skipped_bytes: int
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def decode(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        parsed, kind = read_any_schema(schema)
        for batch in batches:
            rows, errors = decode_values(batch.column(column.source).to_pylist(), parsed, skipped_bytes)
            yield pa.RecordBatch.from_arrays(
                [*batch.columns, pa.array(rows, kind), pa.array(errors, pa.string())],
                names=[*batch.schema.names, column.row, column.error],
            )

    return decode


def decode_values(
    values: list[bytes | None], parsed: Any, skipped_bytes: int
) -> tuple[list[Any], list[str | None]]:
    """For each value, its row or the reason why it cannot be decoded."""
    import fastavro

    rows: list[Any] = []
    errors: list[str | None] = []
    for value in values:
        row, problem = None, None
        if value is not None:
            try:
                stream = io.BytesIO(value)
                if skipped_bytes and (len(value) < skipped_bytes or value[0] != 0):
                    raise ValueError("the value does not start with a schema id")
                stream.seek(skipped_bytes)
                row = fastavro.schemaless_reader(stream, parsed, None)
                if stream.tell() != len(value):
                    raise ValueError(f"{len(value) - stream.tell()} bytes follow the record")
            except (ValueError, EOFError, IndexError, KeyError, TypeError, OverflowError) as error:
                row, problem = None, f"not valid Avro for this schema: {str(error) or type(error).__name__}"
        rows.append(row)
        errors.append(problem)
    return rows, errors


def _wrong(what: str) -> WrongDefinition:
    return WrongDefinition([ProjectProblem("decode.schema_file", what, "See the Avro specification.")])
