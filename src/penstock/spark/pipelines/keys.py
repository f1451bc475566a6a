"""Fills the key columns of an upsert from the record's key where the value lacks them. Never raises on a row.

Every tombstone needs this: it has a key and no value. The record's key is decoded as an Avro record (with
`decode.key_schema_file`), as a JSON object, as the `payload` of a JSON object with an embedded schema, or, for a single
key column, as plain text. A key that cannot be decoded makes the row a dead letter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from penstock.spark.pipelines.decoder import ERROR, KEY_ERROR, KEY_ROW

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType

KEY_CHARS_SHOWN_MAX = 100


def with_key_columns(rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Rows with key columns filled from value and key, and an error where one is still null."""
    from pyspark.sql import functions as F

    found = [name for name in names if name in rows.columns]
    if not found:
        return rows.drop(KEY_ROW, KEY_ERROR)
    is_only = len(names) == 1
    if KEY_ROW in rows.columns:
        taken = {name: _of_avro(rows, name, is_only) for name in found}
        refusal = F.col(KEY_ERROR)
    else:
        taken = {name: _of_text(name, rows.schema[name].dataType, is_only) for name in found}
        refusal = F.lit(None).cast("string")
    rows = rows.withColumns({name: F.coalesce(F.col(f"`{name}`"), value) for name, value in taken.items()})
    for name in found:
        rows = rows.withColumn(ERROR, F.coalesce(F.col(ERROR), _nameless(name, refusal)))
    return rows.drop(KEY_ROW, KEY_ERROR)


def _nameless(name: str, refusal: Column) -> Column:
    """The error of a row whose key column is null."""
    from pyspark.sql import functions as F

    shown = F.substring(F.coalesce(_text(), F.hex("_key")), 1, KEY_CHARS_SHOWN_MAX)
    tombstone = F.concat(
        F.lit(f"the record has no value, and its key does not contain {name}: "),
        F.coalesce(refusal, shown, F.lit("it has no key")),
    )
    no_column = F.lit(f"key column {name} has no value")
    reason = F.when(F.col("_value").isNull(), tombstone).otherwise(no_column)
    return F.when(F.col(f"`{name}`").isNull(), reason)


def _text() -> Column:
    """The key as text; null if it is not valid UTF-8."""
    from pyspark.sql import functions as F

    return F.try_validate_utf8(F.col("_key").cast("string"))


def _of_text(name: str, wanted: DataType, is_only: bool) -> Column:
    from pyspark.sql import functions as F

    text = _text()
    by_field = [F.get_json_object(text, f"$['{name}']"), F.get_json_object(text, f"$.payload['{name}']")]
    is_object = text.rlike(r"^\s*\{")
    unquoted = F.coalesce(F.when(text.startswith('"'), F.get_json_object(text, "$")), text)
    scalar = [F.when(~is_object, unquoted)] if is_only else []
    return _read_as(F.coalesce(*by_field, *scalar), wanted)


def _read_as(text: Column, wanted: DataType) -> Column:
    """Parse text as this type, or null: a malformed key must not fail the batch."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import ArrayType, MapType, StructType

    if isinstance(wanted, ArrayType | MapType | StructType):
        return F.from_json(text, wanted)
    return text.try_cast(wanted)


def _of_avro(rows: DataFrame, name: str, is_only: bool) -> Column:
    """A field of the decoded key; a scalar key fills the only key column."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StructType

    wanted = rows.schema[name].dataType
    key: Any = rows.schema[KEY_ROW].dataType
    if not isinstance(key, StructType):
        return F.col(KEY_ROW).try_cast(wanted) if is_only else F.lit(None).cast(wanted)
    if name not in key.names:
        return F.lit(None).cast(wanted)
    return F.col(f"{KEY_ROW}.`{name}`").try_cast(wanted)
