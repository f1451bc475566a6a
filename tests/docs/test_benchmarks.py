"""The benchmark page and its charts are what the code renders from the stored result."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.apps.bench.compare.comparison import CLUSTER_ROWS, ROWS
from penstock.apps.bench.compare.report import files, result
from penstock.apps.bench.compare.rows import first_message
from penstock.apps.bench.compare.runs.row import Row

PAGE = Path(__file__).resolve().parents[2] / "docs" / "benchmarks.md"


@pytest.fixture(scope="module")
def stored() -> result.ComparisonResult:
    found = result.read_result(files.data_of(PAGE))
    assert found is not None
    return found


def test_the_page_is_rendered_from_the_stored_result(stored: result.ComparisonResult, tmp_path: Path) -> None:
    copy = tmp_path / PAGE.name
    copy.write_bytes(PAGE.read_bytes())
    files.write_page(copy, stored)
    assert copy.read_text("utf-8") == PAGE.read_text("utf-8")
    for name in (files.DATA, files.CHART, files.FULL_CHART):
        written = (copy.with_suffix("") / name).read_text("utf-8")
        assert written == (PAGE.with_suffix("") / name).read_text("utf-8")


def test_the_stored_lines_have_the_texts_of_the_rows(stored: result.ComparisonResult) -> None:
    rows = [row.lines for row in (ROWS | CLUSTER_ROWS).values() if isinstance(row, Row)]
    texts = {
        line.number: (line.text, line.unit, line.why)
        for lines in (*rows, first_message.LINES)
        for line in lines
    }
    found = {one.number: (one.row, one.unit, one.why) for one in stored.lines}
    assert found.items() <= texts.items()
    every_row = {line.number for row in ROWS.values() if isinstance(row, Row) for line in row.lines}
    assert every_row <= found.keys(), "rows over clusters may be missing, since they take long"
