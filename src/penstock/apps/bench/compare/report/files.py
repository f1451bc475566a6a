"""The result as files: JSON, two charts, and Markdown, as its own page or between the markers of an existing one."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.apps.bench.compare.report import chart, tables
from penstock.apps.bench.compare.report.result import ComparisonResult

BEGIN, END = "<!-- comparison: begin -->", "<!-- comparison: end -->"
"""The text between the markers is generated; the rest of the page is not touched."""
DATA, MARKDOWN = "comparison.json", "comparison.md"
CHART, FULL_CHART = "comparison.svg", "comparison-full.svg"


class MissingMarkers(Exception):
    """The page does not contain both markers."""


def write_files(directory: Path, result: ComparisonResult) -> None:
    """Write Markdown, JSON and both charts."""
    write_data(directory, result)
    _replace(directory / MARKDOWN, f"# Benchmarks, {result.date}\n\n{tables.markdown(result)}")


def write_page(page: Path, result: ComparisonResult) -> None:
    """Write Markdown between the markers of the page, data and charts into the directory next to it with its name."""
    directory = data_of(page).parent
    write_data(directory, result)
    before, after = around_markers(page)
    picture = f"![Penstock and other brokers, all rows]({directory.name}/{FULL_CHART})"
    content = f"Measured on {result.date}.\n\n{picture}\n\n{tables.markdown(result)}"
    _replace(page, f"{before}{BEGIN}\n{content}{END}{after}")


def data_of(page: Path) -> Path:
    """Path of the JSON that belongs to a page."""
    return page.with_suffix("") / DATA


def around_markers(page: Path) -> tuple[str, str]:
    """The text of a page before and after the generated part; a new page for a missing one. Raises MissingMarkers."""
    text = page.read_text(encoding="utf-8") if page.exists() else f"# Benchmarks\n\n{BEGIN}\n{END}\n"
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise MissingMarkers(f"{page} does not contain the markers {BEGIN} and {END}")
    return before, after


def write_data(directory: Path, result: ComparisonResult) -> None:
    """Write JSON and both charts."""
    directory.mkdir(parents=True, exist_ok=True)
    _replace(directory / DATA, json.dumps(result.as_json(), indent=2, ensure_ascii=False) + "\n")
    title = f"Penstock and other brokers, {result.date}"
    _replace(directory / CHART, chart.svg(chart.selected(result.lines), title))
    _replace(directory / FULL_CHART, chart.svg(result.lines, title))


def _replace(path: Path, text: str) -> None:
    """Replace the file atomically: a comparison may be interrupted while it writes."""
    scratch = path.with_name(path.name + ".new")
    scratch.write_text(text, encoding="utf-8")
    scratch.replace(path)
