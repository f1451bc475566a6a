"""Every format keeps the same promises: a batch is there once, columns are only added, maintenance loses nothing."""

from __future__ import annotations

import shutil
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.spark.errors import SchemaMismatch
from penstock.spark.lake.files import COPY_PREFIX, staged_files, staged_schema
from penstock.spark.lake.port import CommitMark, LakeTable, Merge
from penstock.spark.lake.tables import open_table

FORMATS = ("delta", "iceberg", "parquet")
TODAY = datetime(2026, 11, 16, 12, tzinfo=UTC)


@pytest.fixture(params=FORMATS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> LakeTable:
    return open_table(tmp_path / "lake" / "orders", request.param)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "lake" / "orders"


def rows(first: int, count: int, when: datetime = TODAY, **more: pa.Array) -> pa.Table:
    return pa.table(
        {
            "id": pa.array(range(first, first + count), pa.int64()),
            "_topic": pa.array(["orders"] * count),
            "_partition": pa.array([number % 2 for number in range(count)], pa.int32()),
            "_offset": pa.array(range(first, first + count), pa.int64()),
            "_timestamp": pa.array([when] * count, pa.timestamp("us", "UTC")),
            "_date": pa.array([when.date()] * count, pa.date32()),
            **more,
        }
    )


def stage(table: LakeTable, place: Path, batch: int, content: pa.Table) -> Path:
    """What Spark's writer leaves behind: one file for each day."""
    directory = place / table.staging / f"b{batch}"
    for day in sorted(set(content["_date"].to_pylist())):
        below = directory / f"{COPY_PREFIX}_date={day}"
        below.mkdir(parents=True)
        pq.write_table(content.filter(pa.compute.equal(content["_date"], day)), below / "part-0.parquet")
    return directory


def add(table: LakeTable, place: Path, batch: int, content: pa.Table, app: str = "app") -> None:
    directory = stage(table, place, batch, content)
    schema = staged_schema(directory)
    assert schema is not None
    table.append(staged_files(place, directory), schema, ["_date"], CommitMark(app, batch))


def ids(table: LakeTable) -> list[int]:
    return sorted(table.between(table.spans(), ["id"])["id"].to_pylist())


def test_what_was_added_is_there_with_its_mark(table: LakeTable, place: Path) -> None:
    assert not table.exists()
    assert table.recorded("app") is None
    add(table, place, 0, rows(0, 4))
    add(table, place, 1, rows(4, 4, TODAY + timedelta(days=1)))
    assert table.exists()
    assert table.recorded("app") == 1
    assert table.recorded("another") is None
    assert ids(table) == list(range(8))
    assert table.spans() == {("orders", 0): (0, 7), ("orders", 1): (1, 8)}
    assert table.between({("orders", 1): (2, 6)}, ["id"])["id"].to_pylist() in ([3, 5], [5, 3])


def test_days_are_kept(table: LakeTable, place: Path) -> None:
    add(table, place, 0, rows(0, 2))
    add(table, place, 1, rows(2, 2, TODAY + timedelta(days=1)))
    days = table.between(table.spans(), ["id", "_date"]).sort_by("id")["_date"].to_pylist()
    assert days == [date(2026, 11, 16)] * 2 + [date(2026, 11, 17)] * 2


def test_columns_may_be_added(table: LakeTable, place: Path) -> None:
    add(table, place, 0, rows(0, 2))
    add(table, place, 1, rows(2, 2, note=pa.array(["x", "y"])))
    read = table.between(table.spans(), ["id", "note"]).sort_by("id")
    assert read["note"].to_pylist() == [None, None, "x", "y"]
    assert "note" in table.schema().names


def test_columns_may_not_change(table: LakeTable, place: Path) -> None:
    add(table, place, 0, rows(0, 2, note=pa.array(["x", "y"])))
    with pytest.raises(SchemaMismatch, match=r"note is string in the table and int64 in the rows.*sql step"):
        add(table, place, 1, rows(2, 2, note=pa.array([1, 2], pa.int64())))
    assert ids(table) == [0, 1]
    assert table.recorded("app") == 0


def test_small_files_are_written_together(table: LakeTable, place: Path) -> None:
    for batch in range(5):
        add(table, place, batch, rows(batch * 10, 10))
    done = table.compact(100_000_000, 7 * 86_400_000, None)
    assert (done.files_before, done.files_after) == (5, 1)
    assert ids(table) == list(range(50))
    assert table.recorded("app") == 4, "maintenance keeps the marks"
    add(table, place, 5, rows(50, 10))
    assert ids(table) == list(range(60))


def test_old_rows_expire(table: LakeTable, place: Path) -> None:
    add(table, place, 0, rows(0, 4, TODAY - timedelta(days=40)))
    add(table, place, 1, rows(4, 4))
    done = table.compact(1, 86_400_000, int((TODAY - timedelta(days=30)).timestamp() * 1000))
    assert done.rows_expired == 4
    assert ids(table) == [4, 5, 6, 7]


def test_staged_files_that_were_never_committed_are_no_part_of_it(table: LakeTable, place: Path) -> None:
    add(table, place, 0, rows(0, 4))
    stage(table, place, 1, rows(4, 4))
    assert ids(table) == [0, 1, 2, 3]


@pytest.mark.parametrize("format_name", ["delta", "iceberg"])
@pytest.mark.parametrize("key", [("id",), ("id", "_topic")])
def test_changes_are_merged_by_key(format_name: str, key: tuple[str, ...], place: Path) -> None:
    table = open_table(place, format_name)

    def change(batch: int, *changes: tuple[int, str | None]) -> None:
        content = pa.table(
            {
                "id": pa.array([one[0] for one in changes], pa.int64()),
                "_topic": pa.array(["t"] * len(changes)),
                "name": pa.array([one[1] for one in changes], pa.string()),
                "_gone": pa.array([one[1] is None for one in changes]),
            }
        )
        table.merge(content.to_reader(), Merge(key, "_gone"), CommitMark("app", batch))

    change(0, (1, "a"), (2, "b"), (3, None))
    change(1, (2, "B"), (1, None), (4, "d"))
    assert table.recorded("app") == 1
    assert _named(place, format_name) == {2: "B", 4: "d"}
    change(2, (2, None), (4, None))
    assert _named(place, format_name) == {}


def _named(place: Path, format_name: str) -> dict[int, str]:
    if format_name == "delta":
        from deltalake import DeltaTable

        read = DeltaTable(str(place)).to_pyarrow_table()
    else:
        from pyiceberg.catalog.sql import SqlCatalog

        catalog = SqlCatalog("penstock", uri=f"sqlite:///{place.parent / 'iceberg-catalog.db'}")
        read = catalog.load_table("penstock.orders").scan().to_arrow()
    return dict(zip(read["id"].to_pylist(), read["name"].to_pylist(), strict=True))


def test_parquet_finishes_a_commit_that_was_cut_short(place: Path) -> None:
    """The manifest is there, its files are not where readers look yet: the next use of the table moves them."""
    table = open_table(place, "parquet")
    add(table, place, 0, rows(0, 4))
    directory = place / table.staging / "b0" / f"{COPY_PREFIX}_date=2026-11-16"
    visible = next(file for file in place.rglob("*.parquet") if "_staging" not in file.parts)
    directory.mkdir(parents=True, exist_ok=True)
    shutil.move(visible, directory / "part-0.parquet")
    assert table.recorded("app") == 0
    assert visible.exists()
    assert ids(table) == [0, 1, 2, 3]


def test_two_writers_of_one_batch_cannot_both_win(place: Path) -> None:
    from deltalake import DeltaTable

    table = open_table(place, "delta")
    add(table, place, 0, rows(0, 4))
    add(table, place, 1, rows(4, 4))
    assert DeltaTable(str(place)).transaction_version("app") == 1
