"""Decodes records to columns: JSON in the JVM, Avro with fastavro in the workers. Never decides where bad rows go.

The result has the columns of the definition, the record's origin (`_topic`, `_partition`, `_offset`, `_timestamp`), its
bytes (`_key`, `_value`, `_headers`) and `_error`: null, or the reason why the row cannot be decoded.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.spark.pipelines.ddl import split_columns
from penstock.spark.pipelines.definition import Decode

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

ORIGIN = ("_topic", "_partition", "_offset", "_timestamp")
RAW = ("_key", "_value", "_headers")
DATE = "_date"
"""The record's date, for tables partitioned by it."""
ERROR = "_error"
HEADERS_TYPE = "array<struct<key:string,value:binary>>"
NO_VALUE = "the record has no value"
NOT_THE_SCHEMA = "the value is not a JSON object with the columns of the schema"
KEY_ROW, KEY_ERROR = "_key_row", "_key_error"
"""The decoded key, or the reason why there is none; only for Avro keys of an upsert (keys.py)."""
_ROW = "_row"
_CORRUPT = "_corrupt"


def origin_and_raw(records: DataFrame) -> DataFrame:
    """The source's columns, renamed so that they cannot collide with those of a value."""
    from pyspark.sql import functions as F

    headers = F.col("headers") if "headers" in records.columns else F.lit(None)
    return records.select(
        F.col("topic").alias("_topic"),
        F.col("partition").alias("_partition"),
        F.col("offset").alias("_offset"),
        F.col("timestamp").alias("_timestamp"),
        F.col("key").cast("binary").alias("_key"),
        F.col("value").cast("binary").alias("_value"),
        headers.cast(HEADERS_TYPE).alias("_headers"),
    )


def decode(
    records: DataFrame, how: Decode, home: Path, is_upsert: bool, known: StructType | None
) -> DataFrame:
    """Source rows with decoded columns. Tombstones are bad rows except for an upsert.

    `known` are the columns of an existing table: with `schema: infer` they keep their types.
    """
    from pyspark.sql import functions as F

    placed = origin_and_raw(records)
    if how.format == "raw":
        return placed.withColumn(ERROR, F.lit(None).cast("string"))
    keys: tuple[str, ...] = ()
    if is_upsert and how.key_schema_file:
        placed = _decode_avro(placed, ("_key", KEY_ROW, KEY_ERROR), home / how.key_schema_file, how)
        keys = (KEY_ROW, KEY_ERROR)
    if how.format == "avro":
        decoded = _decode_avro(placed, ("_value", _ROW, ERROR), home / (how.schema_file or ""), how)
    else:
        decoded = _decode_json(placed, how, known)
    row: Any = decoded.schema[_ROW].dataType
    columns = [F.col(f"{_ROW}.`{name}`").alias(name) for name in row.names if name != _CORRUPT]
    absent = F.lit(None if is_upsert else NO_VALUE).cast("string")
    flat = decoded.select(*columns, *ORIGIN, *RAW, *keys, ERROR)
    broken = F.coalesce(F.col(ERROR), *_broken_rules(how))
    return flat.withColumn(ERROR, F.when(F.col("_value").isNull(), absent).otherwise(broken))


def _decode_avro(placed: DataFrame, column: tuple[str, str, str], schema: Path, how: Decode) -> DataFrame:
    from penstock.spark.pipelines.avro import AvroColumn, decode_avro

    return decode_avro(placed, AvroColumn(*column), schema.read_text("utf-8"), how.framing)


def _decode_json(placed: DataFrame, how: Decode, known: StructType | None) -> DataFrame:
    from pyspark.sql import functions as F

    assert how.schema is not None
    schema = inferred_ddl(placed, known) if how.schema == "infer" else how.schema
    options = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT}
    text = F.col("_value").cast("string")
    row = F.from_json(text, f"{schema}, {_CORRUPT} string", options)
    bad = F.col(f"{_ROW}.{_CORRUPT}").isNotNull() | F.col(_ROW).isNull()
    return placed.withColumn(_ROW, row).withColumn(ERROR, F.when(bad, F.lit(NOT_THE_SCHEMA)))


def _broken_rules(how: Decode) -> list[Column]:
    """For each rule of the definition: the error of a row that violates it, else null."""
    from pyspark.sql import functions as F

    missing = [F.when(F.col(f"`{name}`").isNull(), F.lit(f"{name} has no value")) for name in how.required]
    unmet = [
        F.when(~F.coalesce(F.expr(rule).try_cast("boolean"), F.lit(False)), F.lit(f"not {name}: {rule}"))
        for name, rule in how.expect.items()
    ]
    return [*missing, *unmet, F.lit(None).cast("string")]


_DECIMAL = re.compile(r"DECIMAL\(\d+,\s*\d+\)")


def inferred_ddl(placed: DataFrame, known: StructType | None) -> str:
    """The columns found in the JSON objects of this batch; columns of the table keep their types."""
    from pyspark.sql import functions as F

    found = placed.select(F.schema_of_variant_agg(F.try_parse_json(F.col("_value").cast("string")))).first()
    assert found is not None
    there = {} if known is None else {field.name: field.dataType.simpleString() for field in known}
    body = str(found[0])
    if body.startswith("OBJECT<"):
        seen = [
            part.partition(": ") for part in split_columns(body.removeprefix("OBJECT<").removesuffix(">"))
        ]
        there = {**{name.strip("`"): _column_type(kind) for name, _, kind in seen}, **there}
    assert there or known is not None, "a batch has rows"
    return ", ".join(f"`{name}` {kind}" for name, kind in there.items() if not name.startswith("_"))


def _column_type(kind: str) -> str:
    """Decimals become doubles; mixed types and columns that are always null become strings."""
    plain = _DECIMAL.sub("DOUBLE", kind).replace("OBJECT<", "STRUCT<")
    return re.sub(r"\b(VOID|VARIANT)\b", "STRING", plain)
