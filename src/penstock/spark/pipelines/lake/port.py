"""What a table has to offer, whatever its format. Never imports one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

Spans = dict[tuple[str, int], tuple[int, int]]
"""For topics and their partitions: a first offset, and the one behind the last."""


@dataclass(frozen=True)
class CommitMark:
    """Who commits, and which batch: a batch whose mark is in the table is never added again."""

    app: str
    batch: int


@dataclass
class ColumnBounds:
    """The least and the greatest value of a column in a file, as far as its footer tells, and how many are null."""

    low: Any = None
    high: Any = None
    nulls: int = 0
    is_known: bool = True
    is_text: bool = False

    def widen(self, stats: Any, values: int) -> None:
        """Take in one row group's part of the column. A column of nothing but nulls has no bounds and needs none."""
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
    """A Parquet file that lies in the table's directory and is no part of the table yet."""

    path: str
    """Relative to the table."""
    size_bytes: int
    rows: int
    partition: Mapping[str, str | None]
    bounds: Mapping[str, ColumnBounds]
    """Of each column that is not nested."""


@dataclass(frozen=True)
class Compacted:
    """What maintenance did."""

    files_before: int
    files_after: int
    rows_expired: int
    files_removed: int


@dataclass(frozen=True)
class Merge:
    """How changes meet the rows that are there: by key; `is_deletion` names the column that removes."""

    key: Sequence[str]
    is_deletion: str


class LakeTable(Protocol):
    """One table. Every commit carries its mark, in the same atomic step as the rows."""

    staging: str
    """The directory below the table in which files wait for their commit."""

    def exists(self) -> bool: ...

    def schema(self) -> pa.Schema: ...

    def recorded(self, app: str) -> int | None:
        """The last batch of that app that is in the table."""
        ...

    def append(
        self, files: Sequence[StagedFile], schema: pa.Schema, partition_by: Sequence[str], mark: CommitMark
    ) -> None:
        """Make staged files part of the table. Raises SchemaMismatch."""
        ...

    def merge(self, changes: pa.RecordBatchReader, merge: Merge, mark: CommitMark) -> None:
        """Bring the rows of each key up to date. `changes` has at most one row per key."""
        ...

    def compact(self, file_bytes: int, keep_ms: int, expire_before_ms: int | None) -> Compacted:
        """Write small files together, remove rows before a time, and drop what no reader needs any more."""
        ...

    def spans(self) -> Spans:
        """For each topic and partition, the first offset in the table and the one behind the last."""
        ...

    def between(self, spans: Spans, columns: Sequence[str]) -> pa.Table:
        """The rows whose offsets lie in the spans, in no particular order."""
        ...
