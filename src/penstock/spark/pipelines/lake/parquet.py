"""A directory of Parquet files that any reader understands, with a manifest that says what belongs to the table.

Files wait below `_staging`. A manifest, renamed into place, is the commit: it holds all files, the last batch of each
writer, and what is still to be moved to where readers look or removed. A crash in between is carried out when the
table is next used. Never rewrites a file in place.
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

from penstock.spark.pipelines.lake.evolution import added_fields, plain_schema
from penstock.spark.pipelines.lake.files import POSITION, spans_of, within
from penstock.spark.pipelines.lake.port import CommitMark, Compacted, Merge, Spans, StagedFile
from penstock.spark.pipelines.problems import SchemaMismatch

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

    def __init__(self, place: Path) -> None:
        self._place = place

    staging = "_staging"

    def exists(self) -> bool:
        return any((self._place / _MANIFESTS).glob("*.json"))

    def schema(self) -> pa.Schema:
        """The columns of the newest file: each has all that were there before it."""
        files = self._carried_out().files
        return plain_schema(pq.read_schema(self._place / files[-1])) if files else pa.schema([])

    def recorded(self, app: str) -> int | None:
        return self._carried_out().marks.get(app)

    def append(
        self, files: Sequence[StagedFile], schema: pa.Schema, partition_by: Sequence[str], mark: CommitMark
    ) -> None:
        there = self._carried_out()
        added_fields(self._place, self.schema(), plain_schema(schema))
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
        self._carried_out()

    def merge(self, changes: pa.RecordBatchReader, merge: Merge, mark: CommitMark) -> None:
        raise SchemaMismatch(f"{self._place}: parquet has no upsert. Give format: delta or iceberg.")

    def compact(self, file_bytes: int, keep_ms: int, expire_before_ms: int | None) -> Compacted:
        before = self._carried_out().files
        by_directory: dict[Path, list[str]] = {}
        for file in before:
            if (self._place / file).stat().st_size < file_bytes or expire_before_ms is not None:
                by_directory.setdefault(Path(file).parent, []).append(file)
        expired = 0
        for directory, files in sorted(by_directory.items()):
            if len(files) > 1 or expire_before_ms is not None:
                expired += self._rewrite(directory, files, expire_before_ms)
        return Compacted(len(before), len(self._carried_out().files), expired, self._sweep(keep_ms))

    def spans(self) -> Spans:
        return spans_of(self._dataset().to_batches(columns=POSITION))

    def between(self, spans: Spans, columns: Sequence[str]) -> pa.Table:
        return self._dataset().to_table(columns=list(columns), filter=within(spans))

    def _dataset(self) -> ds.Dataset:
        files = self._carried_out().files
        return ds.dataset([self._place / file for file in files], schema=self.schema(), format="parquet")

    def _rewrite(self, directory: Path, files: list[str], expire_before_ms: int | None) -> int:
        paths = [self._place / file for file in files]
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
            (self._place / staged).parent.mkdir(exist_ok=True)
            pq.write_table(rows, self._place / staged, compression="zstd")
            moves[staged.as_posix()] = (directory / f"compact-{stamp}.parquet").as_posix()
        there = self._carried_out()
        kept = [file for file in there.files if file not in files]
        # What was compacted is older than what stays, and the newest file tells the columns.
        self._commit(Manifest(there.number + 1, [*moves.values(), *kept], there.marks, moves, files))
        self._carried_out()
        return int(count - rows.num_rows)

    def _commit(self, manifest: Manifest) -> None:
        directory = self._place / _MANIFESTS
        directory.mkdir(parents=True, exist_ok=True)
        draft = directory / f".{manifest.number}.draft"
        with draft.open("w", encoding="utf-8") as out:
            json.dump(asdict(manifest), out)
            out.flush()
            os.fsync(out.fileno())
        draft.rename(directory / f"{manifest.number:012}.json")
        for old in sorted(directory.glob("*.json"))[:-_MANIFESTS_KEPT]:
            old.unlink()

    def _carried_out(self) -> Manifest:
        """The last manifest, with everything done that it says."""
        written = sorted((self._place / _MANIFESTS).glob("*.json"))
        if not written:
            return Manifest(-1, [], {}, {}, [])
        manifest = Manifest(**json.loads(written[-1].read_text("utf-8")))
        for staged, visible in manifest.moves.items():
            if (self._place / staged).exists():
                (self._place / visible).parent.mkdir(parents=True, exist_ok=True)
                (self._place / staged).rename(self._place / visible)
        for gone in manifest.removes:
            (self._place / gone).unlink(missing_ok=True)
        return manifest

    def _sweep(self, keep_ms: int) -> int:
        """Remove staged files of batches that never came to a commit."""
        old_s = time.time() - keep_ms / 1000
        left = [
            file for file in (self._place / self.staging).rglob("*.parquet") if file.stat().st_mtime < old_s
        ]
        for file in left:
            file.unlink()
        return len(left)


def _visible(file: StagedFile, mark: CommitMark) -> str:
    """`_staging/<batch>/__part__date=2026-11-16/part-0.parquet` → `2026-11-16/<batch>-part-0.parquet`.

    No `name=value` directories: the files hold these columns themselves, and some readers take that for a conflict.
    """
    directories = [(value or "none").replace("/", "_") for value in file.partition.values()]
    return Path(*directories, f"{mark.batch:09}-{Path(file.path).name}").as_posix()
