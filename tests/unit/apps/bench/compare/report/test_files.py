"""The result as files: JSON that is read back, and a page that is not touched outside its markers."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from penstock.apps.bench.compare.report import files, result
from unit.apps.bench.compare.sample_results import line_result, of_rows


def test_a_result_is_read_as_it_was_written(tmp_path: Path) -> None:
    one = replace(
        line_result([30, 30], [20, 20]), cold={"Kafka": 1.0}, cpu_us={"Kafka": [2.0]}, size_bytes=100
    )
    found = of_rows(one)
    found.peers = {"Kafka": result.Peer("4", {"heap": "6g"})}
    files.write_data(tmp_path, found)
    assert result.read_result(tmp_path / "comparison.json") == found
    assert result.read_result(tmp_path / "no.json") is None
    (tmp_path / "comparison.json").write_text('{"rows": []}')
    assert result.read_result(tmp_path / "comparison.json") is None, "an older format"


def test_only_the_text_between_the_markers_is_replaced(tmp_path: Path) -> None:
    page = tmp_path / "benchmarks.md"
    page.write_text("# By hand\n<!-- comparison: begin -->\nold\n<!-- comparison: end -->\n\n## Why\n")
    found = of_rows(line_result([30, 30], [20, 20]))
    for _ in range(2):
        files.write_page(page, found)
    text = page.read_text()
    assert text.startswith("# By hand\n<!-- comparison: begin -->\nMeasured on today.\n")
    assert text.endswith("<!-- comparison: end -->\n\n## Why\n")
    assert "\nold\n" not in text
    assert text.count("| 1 | a row | msg/s | 30 ±0%") == 1
    data = json.loads((tmp_path / "benchmarks" / "comparison.json").read_text())
    assert data["rows"][0]["lines"][0]["derived"]["ratio"] == 1.5
    written = sorted(one.name for one in (tmp_path / "benchmarks").iterdir())
    assert written == ["comparison-full.svg", "comparison.json", "comparison.svg"]
    page.write_text("no markers")
    with pytest.raises(files.MissingMarkers, match="does not contain the markers"):
        files.write_page(page, found)
