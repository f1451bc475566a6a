"""A directory of Parquet files that any reader understands, with a manifest that lists the files of the table.

Files are staged below `_staging`. Renaming a manifest into place is the commit: it holds all files, the last batch of
each writer, and the pending moves and removals. After a crash, the next use of the table completes them. Never rewrites
a file in place.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from penstock.spark.errors import SchemaMismatch
from penstock.spark.lake.evolution import added_fields, plain_schema
from penstock.spark.lake.files import POSITION, spans_of, within
from penstock.spark.lake.port import CommitMark, Compacted, Merge, Spans, StagedFile

_MANIFESTS = "_manifests"
_MANIFESTS_KEPT = 3


@dataclass(frozen=True)
class Manifest:
    """The table after one commit."""

    number: int
    files: list[str]
    marks: dict[str, int]
    moves: dict[str, str]
    removes: list[str]


class ParquetLake:
    """One table of plain Parquet files."""

    def __init__(self, root: Path) -> None:
        self._root = root

    staging = "_staging"

    def exists(self) -> bool:
        return any((self._root / _MANIFESTS).glob("*.json"))

    def schema(self) -> pa.Schema:
        """The schema of the newest file: each file has all columns of the earlier ones."""
        files = self._completed().files
        return plain_schema(pq.read_schema(self._root / files[-1])) if files else pa.schema([])

    def recorded(self, app: str) -> int | None:
        return self._completed().marks.get(app)

    def append(
        self, files: Sequence[StagedFile], schema: pa.Schema, partition_by: Sequence[str], mark: CommitMark
    ) -> None:
        there = self._completed()
        added_fields(self._root, self.schema(), plain_schema(schema))
        moves = {file.path: _visible(file, mark) for file in files}
        self._commit(
            Manifest(
                number=there.number + 1,
                files=[*there.files, *moves.values()],
                marks={**there.marks, mark.app: mark.batch},
                moves=moves,
                removes=[],
            )
        )
        self._completed()

    def merge(self, changes: pa.RecordBatchReader, merge: Merge, mark: CommitMark) -> None:
        raise SchemaMismatch(f"{self._root}: parquet does not support upsert. Use format: delta or iceberg.")

    def compact(self, file_bytes: int, keep_ms: int, expire_before_ms: int | None) -> Compacted:
        before = self._completed().files
        by_directory: dict[Path, list[str]] = {}
        for file in before:
            if (self._root / file).stat().st_size < file_bytes or expire_before_ms is not None:
                by_directory.setdefault(Path(file).parent, []).append(file)
        expired = 0
        for directory, files in sorted(by_directory.items()):
            if len(files) > 1 or expire_before_ms is not None:
                expired += self._rewrite(directory, files, expire_before_ms)
        return Compacted(len(before), len(self._completed().files), expired, self._sweep(keep_ms))

    def spans(self) -> Spans:
        return spans_of(self._dataset().to_batches(columns=POSITION))

    def between(self, spans: Spans, columns: Sequence[str]) -> pa.Table:
        return self._dataset().to_table(columns=list(columns), filter=within(spans))

    def _dataset(self) -> ds.Dataset:
        files = self._completed().files
        return ds.dataset([self._root / file for file in files], schema=self.schema(), format="parquet")

    def _rewrite(self, directory: Path, files: list[str], expire_before_ms: int | None) -> int:
        paths = [self._root / file for file in files]
        rows = ds.dataset(paths, schema=self.schema(), format="parquet").to_table()
        count = rows.num_rows
        if expire_before_ms is not None:
            rows = rows.filter(ds.field("_timestamp") >= datetime.fromtimestamp(expire_before_ms / 1000, UTC))
            if rows.num_rows == count and len(files) == 1:
                return 0
        stamp = time.time_ns()
        staged = Path(self.staging) / f"compact-{stamp}.parquet"
        moves = {}
        if rows.num_rows:
            (self._root / staged).parent.mkdir(exist_ok=True)
            pq.write_table(rows, self._root / staged, compression="zstd")
            moves[staged.as_posix()] = (directory / f"compact-{stamp}.parquet").as_posix()
        there = self._completed()
        remaining = [file for file in there.files if file not in files]
        # The compacted file goes first: it is older than the remaining files, and `schema` reads the last one.
        self._commit(Manifest(there.number + 1, [*moves.values(), *remaining], there.marks, moves, files))
        self._completed()
        return int(count - rows.num_rows)

    def _commit(self, manifest: Manifest) -> None:
        directory = self._root / _MANIFESTS
        directory.mkdir(parents=True, exist_ok=True)
        draft = directory / f".{manifest.number}.draft"
        with draft.open("w", encoding="utf-8") as out:
            json.dump(asdict(manifest), out)
            out.flush()
            os.fsync(out.fileno())
        draft.rename(directory / f"{manifest.number:012}.json")
        for old in sorted(directory.glob("*.json"))[:-_MANIFESTS_KEPT]:
            old.unlink()

    def _completed(self) -> Manifest:
        """The latest manifest, after completing its pending moves and removals. Idempotent: safe to crash in."""
        written = sorted((self._root / _MANIFESTS).glob("*.json"))
        if not written:
            return Manifest(-1, [], {}, {}, [])
        manifest = Manifest(**json.loads(written[-1].read_text("utf-8")))
        for staged, visible in manifest.moves.items():
            if (self._root / staged).exists():
                (self._root / visible).parent.mkdir(parents=True, exist_ok=True)
                (self._root / staged).rename(self._root / visible)
        for gone in manifest.removes:
            (self._root / gone).unlink(missing_ok=True)
        return manifest

    def _sweep(self, keep_ms: int) -> int:
        """Remove staged files of batches that were never committed."""
        old_s = time.time() - keep_ms / 1000
        left = [
            file for file in (self._root / self.staging).rglob("*.parquet") if file.stat().st_mtime < old_s
        ]
        for file in left:
            file.unlink()
        return len(left)


def _visible(file: StagedFile, mark: CommitMark) -> str:
    """`_staging/<batch>/__part__date=2026-11-16/part-0.parquet` → `2026-11-16/<batch>-part-0.parquet`.

    No `name=value` directories: the files contain these columns, and some readers reject the duplicate.
    """
    directories = [(value or "none").replace("/", "_") for value in file.partition.values()]
    return Path(*directories, f"{mark.batch:09}-{Path(file.path).name}").as_posix()
