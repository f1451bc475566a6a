"""An Iceberg table, with a SQLite catalog in its parent directory. The mark is a table property of the same commit.

The snapshot summary alone would not be enough: snapshots expire, and the mark must outlive them.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg import expressions
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import Table, Transaction

from penstock.spark.lake.evolution import added_fields, plain_schema
from penstock.spark.lake.files import POSITION, spans_of
from penstock.spark.lake.port import CommitMark, Compacted, Merge, Spans, StagedFile

CATALOG_FILE = "iceberg-catalog.db"
NAMESPACE = "penstock"
_MARK = "penstock.batch."
_ex: Any = expressions
"""Untyped: the annotations of pyiceberg describe the serialized form, not the constructors."""


class IcebergLake:
    """One Iceberg table in a directory; its catalog holds all tables of the parent directory."""

    staging = "data"

    def __init__(self, root: Path) -> None:
        self._root = root
        self._name = f"{NAMESPACE}.{root.name}"

    def exists(self) -> bool:
        return (self._root.parent / CATALOG_FILE).is_file() and self._catalog().table_exists(self._name)

    def schema(self) -> pa.Schema:
        return plain_schema(self._table().schema().as_arrow())

    def recorded(self, app: str) -> int | None:
        if not self.exists():
            return None
        found = self._table().properties.get(_MARK + app)
        return None if found is None else int(found)

    def append(
        self, files: Sequence[StagedFile], schema: pa.Schema, partition_by: Sequence[str], mark: CommitMark
    ) -> None:
        table = self._get_or_create(schema, partition_by)
        paths = [f"file://{self._root / file.path}" for file in files]
        with table.transaction() as transaction:
            self._evolve(transaction, schema)
            transaction.add_files(paths, snapshot_properties=_summary(mark), check_duplicate_files=False)
            transaction.set_properties(_summary(mark))

    def merge(self, changes: pa.RecordBatchReader, merge: Merge, mark: CommitMark) -> None:
        rows = changes.read_all()
        columns = [name for name in rows.column_names if name != merge.is_deletion]
        table = self._get_or_create(rows.select(columns).schema, ())
        with table.transaction() as transaction:
            self._evolve(transaction, rows.select(columns).schema)
            if rows.num_rows:
                if table.current_snapshot() is not None:
                    transaction.delete(_keys(rows, merge.key), snapshot_properties=_summary(mark))
                remaining = rows.filter(pc.invert(rows[merge.is_deletion])).select(columns)
                transaction.append(_aligned(remaining, transaction), snapshot_properties=_summary(mark))
            transaction.set_properties(_summary(mark))

    def compact(self, file_bytes: int, keep_ms: int, expire_before_ms: int | None) -> Compacted:
        table, expired = self._table(), 0
        before = table.inspect.files().num_rows
        if expire_before_ms is not None:
            limit = datetime.fromtimestamp(expire_before_ms / 1000, UTC).isoformat()
            old = _ex.LessThan("_timestamp", limit)
            expired = table.scan(row_filter=old, selected_fields=("_timestamp",)).to_arrow().num_rows
            if expired:
                table.delete(old)
                table = self._table()
        for small in _small_partitions(table, file_bytes):
            rows = table.scan(row_filter=small).to_arrow()
            table.overwrite(rows, overwrite_filter=small)
            table = self._table()
        cut = datetime.now(UTC) - timedelta(milliseconds=keep_ms)
        table.maintenance.expire_snapshots().older_than(cut.replace(tzinfo=None)).commit()
        table = self._table()
        return Compacted(before, table.inspect.files().num_rows, expired, self._sweep(table, cut))

    def spans(self) -> Spans:
        return spans_of(self._table().scan(selected_fields=tuple(POSITION)).to_arrow_batch_reader())

    def between(self, spans: Spans, columns: Sequence[str]) -> pa.Table:
        return self._table().scan(row_filter=_within(spans), selected_fields=tuple(columns)).to_arrow()

    def _catalog(self) -> SqlCatalog:
        above = self._root.parent
        above.mkdir(parents=True, exist_ok=True)
        catalog = SqlCatalog(NAMESPACE, uri=f"sqlite:///{above / CATALOG_FILE}", warehouse=above.as_uri())
        catalog.create_namespace_if_not_exists(NAMESPACE)
        return catalog

    def _table(self) -> Table:
        return self._catalog().load_table(self._name)

    def _get_or_create(self, schema: pa.Schema, partition_by: Sequence[str]) -> Table:
        if self.exists():
            return self._table()
        catalog = self._catalog()
        with (
            catalog.create_table_transaction(
                self._name, schema=plain_schema(schema), location=self._root.as_uri()
            ) as making,
            making.update_spec() as spec,
        ):
            for name in partition_by:
                spec.add_identity(name)
        return self._table()

    def _evolve(self, transaction: Transaction, schema: pa.Schema) -> None:
        if added_fields(self._root, self.schema(), plain_schema(schema)):
            with transaction.update_schema() as update:
                update.union_by_name(plain_schema(schema))

    def _sweep(self, table: Table, cut: datetime) -> int:
        """Remove old data files that no snapshot references."""
        named = {
            Path(path.removeprefix("file://")) for path in table.inspect.all_files()["file_path"].to_pylist()
        }
        removed = 0
        for file in self._root.rglob("*.parquet"):
            if file not in named and datetime.fromtimestamp(file.stat().st_mtime, UTC) < cut:
                file.unlink()
                removed += 1
        return removed


def _summary(mark: CommitMark) -> dict[str, str]:
    return {_MARK + mark.app: str(mark.batch)}


def _aligned(rows: pa.Table, transaction: Transaction) -> pa.Table:
    """Rows with all columns of the table, null where they lack one."""
    schema = plain_schema(transaction.table_metadata.schema().as_arrow())
    columns = [
        rows[field.name].cast(field.type)
        if field.name in rows.column_names
        else pa.nulls(rows.num_rows, field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _keys(rows: pa.Table, key: Sequence[str]) -> expressions.BooleanExpression:
    """A filter for rows whose key is among the changes."""
    if len(key) == 1:
        among: expressions.BooleanExpression = _ex.In(key[0], rows[key[0]].to_pylist())
        return among
    each: list[expressions.BooleanExpression] = [
        reduce(_ex.And, [_ex.EqualTo(name, value) for name, value in row.items()])
        for row in rows.select(list(key)).to_pylist()
    ]
    return reduce(_ex.Or, each)


def _within(spans: Spans) -> expressions.BooleanExpression:
    topic, partition, offset = POSITION
    each: list[expressions.BooleanExpression] = [
        _ex.And(
            _ex.EqualTo(topic, place[0]),
            _ex.EqualTo(partition, place[1]),
            _ex.GreaterThanOrEqual(offset, low),
            _ex.LessThan(offset, high),
        )
        for place, (low, high) in spans.items()
    ]
    return reduce(_ex.Or, each)


def _small_partitions(table: Table, file_bytes: int) -> list[expressions.BooleanExpression]:
    """Filters for the partitions with more than one file below the size."""
    counted: dict[str, tuple[int, dict[str, Any]]] = {}
    for row in table.inspect.files().to_pylist():
        if row["file_size_in_bytes"] < file_bytes:
            values = row.get("partition") or {}
            number, _ = counted.get(repr(values), (0, values))
            counted[repr(values)] = number + 1, values
    filters: list[expressions.BooleanExpression] = []
    for number, values in counted.values():
        if number > 1:
            filters.append(
                reduce(
                    _ex.And, [_ex.EqualTo(name, value) for name, value in values.items()], _ex.AlwaysTrue()
                )
            )
    return filters
