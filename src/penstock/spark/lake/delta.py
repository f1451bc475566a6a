"""A Delta table. The mark is a `txn` action in the same commit as the files, as in Delta's own streaming writes."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction
from deltalake.transaction import AddAction, create_table_with_add_actions

from penstock.spark.lake.evolution import added_fields, plain_schema
from penstock.spark.lake.files import POSITION, spans_of, within
from penstock.spark.lake.port import ColumnBounds, CommitMark, Compacted, Merge, Spans, StagedFile

_HOUR_MS = 3_600_000
_TEXT_CHARS_MAX = 32
_LAST_TEXT = "\U0010ffff"
"""Sorts after every text."""


class DeltaLake:
    """One Delta table in a directory."""

    staging = "data"

    def __init__(self, root: Path) -> None:
        self._root = root

    def exists(self) -> bool:
        return (self._root / "_delta_log").is_dir() and DeltaTable.is_deltatable(str(self._root))

    def schema(self) -> pa.Schema:
        return plain_schema(pa.schema(self._table().schema().to_arrow()))

    def recorded(self, app: str) -> int | None:
        return self._table().transaction_version(app) if self.exists() else None

    def append(
        self, files: Sequence[StagedFile], schema: pa.Schema, partition_by: Sequence[str], mark: CommitMark
    ) -> None:
        adds: list[Any] = [_add(file) for file in files]
        if not self.exists():
            self._root.mkdir(parents=True, exist_ok=True)
            create_table_with_add_actions(
                str(self._root),
                Schema.from_arrow(plain_schema(schema)),
                adds,
                partition_by=list(partition_by),
                commit_properties=_marked(mark),
            )
            return
        table = self._evolved(schema)
        table.create_write_transaction(
            adds, "append", table.schema(), list(partition_by), commit_properties=_marked(mark)
        )

    def merge(self, changes: pa.RecordBatchReader, merge: Merge, mark: CommitMark) -> None:
        columns = [name for name in changes.schema.names if name != merge.is_deletion]
        if not self.exists():
            stored = pa.schema([changes.schema.field(name) for name in columns])
            DeltaTable.create(str(self._root), Schema.from_arrow(plain_schema(stored)))
        table = self._evolved(pa.schema([changes.schema.field(name) for name in columns]))
        assignments = {f"`{name}`": f"s.`{name}`" for name in columns}
        (
            table.merge(
                changes,
                " AND ".join(f"t.`{name}` = s.`{name}`" for name in merge.key),
                source_alias="s",
                target_alias="t",
                commit_properties=_marked(mark),
            )
            .when_matched_delete(f"s.`{merge.is_deletion}`")
            .when_matched_update(assignments)
            .when_not_matched_insert(assignments, predicate=f"NOT s.`{merge.is_deletion}`")
            .execute()
        )

    def compact(self, file_bytes: int, keep_ms: int, expire_before_ms: int | None) -> Compacted:
        table = self._table()
        before, expired = len(table.file_uris()), 0
        if expire_before_ms is not None:
            limit = datetime.fromtimestamp(expire_before_ms / 1000, UTC).isoformat(sep=" ")
            expired = table.delete(f"_timestamp < '{limit}'").get("num_deleted_rows") or 0
        table.optimize.compact(target_size=file_bytes)
        table = self._table()
        hours = max(1, keep_ms // _HOUR_MS)
        removed = table.vacuum(
            retention_hours=hours, dry_run=False, enforce_retention_duration=False, full=True
        )
        table.cleanup_metadata()
        return Compacted(before, len(table.file_uris()), int(expired), len(removed))

    def spans(self) -> Spans:
        return spans_of(self._table().to_pyarrow_dataset().to_batches(columns=POSITION))

    def between(self, spans: Spans, columns: Sequence[str]) -> pa.Table:
        return self._table().to_pyarrow_dataset().to_table(columns=list(columns), filter=within(spans))

    def _table(self) -> DeltaTable:
        return DeltaTable(str(self._root))

    def _evolved(self, schema: pa.Schema) -> DeltaTable:
        """Add new columns, in a commit of their own: an empty column is harmless if the data never follows."""
        table = self._table()
        new = added_fields(self._root, self.schema(), plain_schema(schema))
        if new:
            fields: list[Field] = Schema.from_arrow(pa.schema(new)).fields
            table.alter.add_columns(fields)
            table = self._table()
        return table


def _marked(mark: CommitMark) -> CommitProperties:
    return CommitProperties(app_transactions=[Transaction(mark.app, mark.batch)])


def _add(file: StagedFile) -> AddAction:
    low, high = {}, {}
    for name, bounds in file.bounds.items():
        if name in file.partition or (bounds.low is None and bounds.is_known):
            continue
        least, greatest = _shown(bounds)
        if least is not None:
            low[name], high[name] = least, greatest
    nulls = {name: bounds.nulls for name, bounds in file.bounds.items() if bounds.is_known}
    stats = {"numRecords": file.rows, "minValues": low, "maxValues": high, "nullCount": nulls}
    now_ms = int(time.time() * 1000)
    return AddAction(file.path, file.size_bytes, dict(file.partition), now_ms, True, json.dumps(stats))


def _shown(bounds: ColumnBounds) -> tuple[object, object]:
    """Bounds in the form of Delta's log, rounded outwards: times to milliseconds, texts truncated.

    A text column with unknown bounds gets the widest ones: readers treat a file without bounds as empty.
    """
    low, high = bounds.low, bounds.high
    if not bounds.is_known or isinstance(low, bool | bytes):
        return ("", _LAST_TEXT) if bounds.is_text else (None, None)
    if isinstance(low, str):
        return low[:_TEXT_CHARS_MAX], high if len(high) <= _TEXT_CHARS_MAX else high[
            :_TEXT_CHARS_MAX
        ] + _LAST_TEXT
    if isinstance(low, datetime):
        return _stamp(low), _stamp(high + timedelta(microseconds=999))
    if isinstance(low, date):
        return low.isoformat(), high.isoformat()
    if isinstance(low, Decimal):
        return math.floor(low), math.ceil(high)
    return low, high


def _stamp(moment: datetime) -> str:
    in_utc = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    return in_utc.isoformat(timespec="milliseconds").replace("+00:00", "Z")
