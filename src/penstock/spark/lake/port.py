"""The interface of a table, independent of its format. Never imports a format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

Spans = dict[tuple[str, int], tuple[int, int]]
"""By topic and partition: the first offset, and the one after the last."""


@dataclass(frozen=True)
class CommitMark:
    """Writer and batch number of a commit. A batch whose mark is in the table is never added again."""

    app: str
    batch: int


@dataclass
class ColumnBounds:
    """Minimum, maximum and null count of a column in a file, as far as its footer has them."""

    low: Any = None
    high: Any = None
    nulls: int = 0
    is_known: bool = True
    is_text: bool = False

    def widen(self, stats: Any, values: int) -> None:
        """Add the statistics of one row group. An all-null column has no bounds and needs none."""
        if stats is None or not stats.has_null_count:
            self.is_known = False
            return
        self.nulls += stats.null_count
        if stats.has_min_max:
            self.low = stats.min if self.low is None else min(self.low, stats.min)
            self.high = stats.max if self.high is None else max(self.high, stats.max)
        elif stats.null_count < values:
            self.is_known = False


@dataclass(frozen=True)
class StagedFile:
    """A Parquet file in the table's directory that is not yet part of the table."""

    path: str
    """Relative to the table."""
    size_bytes: int
    rows: int
    partition: Mapping[str, str | None]
    bounds: Mapping[str, ColumnBounds]
    """By name, for columns that are not nested."""


@dataclass(frozen=True)
class Compacted:
    """Result of a compaction."""

    files_before: int
    files_after: int
    rows_expired: int
    files_removed: int


@dataclass(frozen=True)
class Merge:
    """How to merge changes: the key columns, and the boolean column that marks deletions."""

    key: Sequence[str]
    is_deletion: str


class LakeTable(Protocol):
    """One table. Every commit contains its mark, atomically with the rows."""

    staging: str
    """Subdirectory for files that are not committed yet."""

    def exists(self) -> bool: ...

    def schema(self) -> pa.Schema: ...

    def recorded(self, app: str) -> int | None:
        """The last batch of that app in the table."""
        ...

    def append(
        self, files: Sequence[StagedFile], schema: pa.Schema, partition_by: Sequence[str], mark: CommitMark
    ) -> None:
        """Commit staged files. Raises SchemaMismatch."""
        ...

    def merge(self, changes: pa.RecordBatchReader, merge: Merge, mark: CommitMark) -> None:
        """Upsert or delete rows by key. `changes` has at most one row per key."""
        ...

    def compact(self, file_bytes: int, keep_ms: int, expire_before_ms: int | None) -> Compacted:
        """Merge small files, delete rows older than a time, and remove unreferenced files."""
        ...

    def spans(self) -> Spans:
        """The offset range of each topic and partition in the table."""
        ...

    def between(self, spans: Spans, columns: Sequence[str]) -> pa.Table:
        """The rows whose offsets are in the spans, in no particular order."""
        ...
