"""Schema evolution: columns are added, never dropped and never changed. Compares schemas; never writes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pyarrow as pa

from penstock.spark.errors import SchemaMismatch


def added_fields(table: Path, there: pa.Schema, coming: pa.Schema) -> list[pa.Field]:
    """Columns that the table does not have yet. Raises SchemaMismatch if an existing column has another type."""
    changed = {
        field.name: (there.field(field.name).type, field.type)
        for field in coming
        if field.name in there.names and not same_type(there.field(field.name).type, field.type)
    }
    refuse_changed(table, changed)
    return [field for field in coming if field.name not in there.names]


def refuse_changed(table: Path, types: Mapping[str, tuple[object, object]]) -> None:
    """Raises SchemaMismatch if a column has different types in the table and in the rows."""
    wrong = [
        f"{name} is {there} in the table and {coming} in the rows"
        for name, (there, coming) in types.items()
        if there != coming
    ]
    if wrong:
        raise SchemaMismatch(
            f"{table}: {'; '.join(wrong)}. Columns can be added but not changed: "
            "cast them back in a sql step, or write to another table."
        )


def same_type(there: pa.DataType, coming: pa.DataType) -> bool:
    """Equal except for Arrow variants: large or view types, names of list items, nullability."""
    return bool(plain_type(there) == plain_type(coming))


def plain_type(given: pa.DataType) -> pa.DataType:
    """The canonical variant of a type."""
    if pa.types.is_large_string(given) or pa.types.is_string_view(given):
        return pa.string()
    if pa.types.is_large_binary(given) or pa.types.is_binary_view(given):
        return pa.binary()
    if pa.types.is_timestamp(given):
        return pa.timestamp("us", "UTC" if given.tz else None)
    if pa.types.is_list(given) or pa.types.is_large_list(given):
        return pa.list_(pa.field("element", plain_type(given.value_type)))
    if pa.types.is_struct(given):
        return pa.struct([pa.field(field.name, plain_type(field.type)) for field in given])
    if pa.types.is_map(given):
        return pa.map_(plain_type(given.key_type), plain_type(given.item_type))
    return given


def plain_schema(given: pa.Schema) -> pa.Schema:
    return pa.schema([pa.field(field.name, plain_type(field.type)) for field in given])
