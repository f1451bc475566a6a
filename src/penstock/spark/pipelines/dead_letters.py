"""Dead letters: rows that could not be decoded, with reason, origin and original bytes. Never drops one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from penstock.spark.pipelines.decoder import ERROR, HEADERS_TYPE, NOT_THE_SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

PREFIX = "penstock.dlq."
"""Prefix of the headers added to a dead letter; `redrive` removes them."""

REASON_CHARS_MAX = 500


def explained(bad: DataFrame, columns: list[str]) -> DataFrame:
    """Bad rows with a reason that names the column. Only bad rows are decoded a second time."""
    from pyspark.sql import functions as F

    explained_reason = F.udf(lambda value: reason(value, columns), "string")(F.col("_value"))
    return bad.withColumn(
        ERROR, F.when(F.col(ERROR) == NOT_THE_SCHEMA, explained_reason).otherwise(F.col(ERROR))
    )


def reason(value: bytes | None, columns: list[str]) -> str:
    """What is wrong with a value that should be a JSON object with these columns (`name type`)."""
    try:
        row = json.loads(value or b"")
    except UnicodeDecodeError:
        return "the value is not valid UTF-8"
    except ValueError as error:
        return f"the value is not valid JSON: {error}"[:REASON_CHARS_MAX]
    if not isinstance(row, dict):
        return f"the value is not a JSON object but {_kind(row)}"
    wrong = []
    for column in columns:
        name, _, wanted = column.partition(" ")
        found = row.get(name)
        if found is not None and not _fits(found, wanted):
            wrong.append(f"{name} should be {wanted} but is {json.dumps(found)[:60]}")
    return ("; ".join(wrong) or NOT_THE_SCHEMA)[:REASON_CHARS_MAX]


_NUMBERS = ("tinyint", "smallint", "int", "bigint")
_POINTS = ("float", "double", "decimal")


def _fits(found: Any, wanted: str) -> bool:
    if wanted.startswith(_NUMBERS):
        return isinstance(found, int) and not isinstance(found, bool)
    if wanted.startswith(_POINTS):
        return isinstance(found, int | float) and not isinstance(found, bool)
    if wanted.startswith("boolean"):
        return isinstance(found, bool)
    if wanted.startswith(("struct", "map")):
        return isinstance(found, dict)
    if wanted.startswith("array"):
        return isinstance(found, list)
    return wanted.startswith("string")


def _kind(value: Any) -> str:
    kinds = {list: "a list", str: "a string", bool: "a boolean", int: "a number", float: "a number"}
    return kinds.get(type(value), "null")


def as_records(bad: DataFrame, pipeline: str) -> DataFrame:
    """Dead letters for a topic: original key, value and headers, plus headers with reason and origin."""
    from pyspark.sql import functions as F

    ours = {
        "reason": F.col(ERROR),
        "topic": F.col("_topic"),
        "partition": F.col("_partition").cast("string"),
        "offset": F.col("_offset").cast("string"),
        "timestamp": F.unix_millis("_timestamp").cast("string"),
        "pipeline": F.lit(pipeline),
    }
    added = F.array(*[_header(name, value) for name, value in ours.items()])
    theirs = F.coalesce(F.col("_headers"), F.array().cast(HEADERS_TYPE))
    return bad.select(
        F.col("_key").alias("key"),
        F.col("_value").alias("value"),
        F.concat(_without_ours(theirs), added).alias("headers"),
    )


def _header(name: str, value: Column) -> Column:
    from pyspark.sql import functions as F

    return F.struct(F.lit(PREFIX + name).alias("key"), value.cast("binary").alias("value"))


def _without_ours(headers: Column) -> Column:
    from pyspark.sql import functions as F

    return F.filter(headers, lambda header: ~header["key"].startswith(PREFIX))


def as_rows(bad: DataFrame, pipeline: str) -> DataFrame:
    """Dead letters for a table."""
    from pyspark.sql import functions as F

    return bad.select(
        F.col(ERROR).alias("reason"),
        F.lit(pipeline).alias("pipeline"),
        "_topic",
        "_partition",
        "_offset",
        "_timestamp",
        "_key",
        "_value",
        "_headers",
    )


def without_our_headers(records: DataFrame) -> DataFrame:
    """Original records of the dead letters in a topic: origin in columns, our headers removed."""
    from pyspark.sql import functions as F

    def header(name: str) -> Column:
        ours = F.filter(F.col("headers"), lambda header: header["key"] == PREFIX + name)
        return F.get(ours, F.lit(0))["value"].cast("string")

    return records.select(
        header("reason").alias("reason"),
        header("topic").alias("_topic"),
        header("partition").cast("int").alias("_partition"),
        header("offset").cast("bigint").alias("_offset"),
        F.col("key"),
        F.col("value"),
        _without_ours(F.col("headers")).alias("headers"),
    )
