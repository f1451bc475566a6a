"""Describes staged Parquet files from their footers, and queries rows by position. Never moves or removes a file."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from functools import reduce
from pathlib import Path
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from penstock.spark.lake.port import ColumnBounds, Spans, StagedFile

COPY_PREFIX = "__part_"
"""Directories are named after a copy of the partition column, so that the files still contain the column itself."""

_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"


def staged_files(table: Path, directory: Path) -> list[StagedFile]:
    """Every non-empty file below a directory of the table, sorted by name."""
    found = []
    for file in sorted(directory.rglob("*.parquet")):
        described = _describe(table, file)
        if described.rows:
            found.append(described)
    return found


def staged_schema(directory: Path) -> pa.Schema | None:
    """The schema of the staged files; None if there are none."""
    for file in sorted(directory.rglob("*.parquet")):
        schema: pa.Schema = pq.read_schema(file)
        return schema.remove_metadata()
    return None


def _describe(table: Path, file: Path) -> StagedFile:
    footer = pq.read_metadata(file)
    bounds: dict[str, ColumnBounds] = {}
    for group in range(footer.num_row_groups):
        for index in range(footer.num_columns):
            column = footer.row_group(group).column(index)
            if "." not in column.path_in_schema:
                is_text = footer.schema.column(index).logical_type.type == "STRING"
                known = bounds.setdefault(column.path_in_schema, ColumnBounds(is_text=is_text))
                known.widen(column.statistics, column.num_values)
    return StagedFile(
        path=file.relative_to(table).as_posix(),
        size_bytes=file.stat().st_size,
        rows=footer.num_rows,
        partition=_partition(file.relative_to(table)),
        bounds=bounds,
    )


def _partition(path: Path) -> dict[str, str | None]:
    found: dict[str, str | None] = {}
    for part in path.parts[:-1]:
        name, equals, value = part.partition("=")
        if equals and name.startswith(COPY_PREFIX):
            found[name.removeprefix(COPY_PREFIX)] = None if value == _NULL_PARTITION else unquote(value)
    return found


POSITION = ["_topic", "_partition", "_offset"]
"""Columns with the topic, partition and offset that a row came from."""


def spans_of(batches: Iterable[pa.RecordBatch]) -> Spans:
    """The offset range of each partition in rows with position columns."""
    found: Spans = {}
    for batch in batches:
        table = pa.table(batch) if isinstance(batch, pa.RecordBatch) else batch
        grouped = table.group_by(POSITION[:2]).aggregate([("_offset", "min"), ("_offset", "max")])
        for row in grouped.to_pylist():
            place = (row["_topic"], row["_partition"])
            low, high = found.get(place, (row["_offset_min"], 0))
            found[place] = min(low, row["_offset_min"]), max(high, row["_offset_max"] + 1)
    return dict(sorted(found.items()))


def within(spans: Spans) -> ds.Expression:
    """A filter for rows whose offset is in the span of their partition."""
    topic, partition, offset = (ds.field(name) for name in POSITION)
    parts = [
        (topic == place[0]) & (partition == place[1]) & (offset >= low) & (offset < high)
        for place, (low, high) in spans.items()
    ]
    return reduce(operator.or_, parts)
