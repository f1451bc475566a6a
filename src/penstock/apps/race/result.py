"""The result as files: JSON, two charts, and the text in a page of its own or between the marks of one."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.apps.race import chart, tables
from penstock.apps.race.outcome import Outcome

BEGIN, END = "<!-- race: begin -->", "<!-- race: end -->"
"""The text between them belongs to the result; the rest of the page is left alone."""
DATA = "race.json"


class NoPlace(Exception):
    """A page without the two marks."""


def write_files(directory: Path, outcome: Outcome) -> None:
    """race.md, race.json, race.svg and race-full.svg."""
    write_data(directory, outcome)
    _replace(directory / "race.md", f"# Benchmarks, {outcome.date}\n\n{tables.markdown(outcome)}")


def write_page(page: Path, outcome: Outcome) -> None:
    """The text into a page between its marks, data and charts into a directory of the page's name beside it."""
    directory = data_of(page).parent
    write_data(directory, outcome)
    before, after = place_in(page)
    picture = f"![Penstock and other brokers, all rows]({directory.name}/race-full.svg)"
    content = f"Run of {outcome.date}.\n\n{picture}\n\n{tables.markdown(outcome)}"
    _replace(page, f"{before}{BEGIN}\n{content}{END}{after}")


def data_of(page: Path) -> Path:
    """Where the JSON of a page lies."""
    return page.with_suffix("") / DATA


def place_in(page: Path) -> tuple[str, str]:
    """The text of a page before and after the result. Raises NoPlace; a page that does not exist yet has one."""
    text = page.read_text(encoding="utf-8") if page.exists() else f"# Benchmarks\n\n{BEGIN}\n{END}\n"
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise NoPlace(f"{page} has no place for the result: a line {BEGIN} and below it a line {END}")
    return before, after


def write_data(directory: Path, outcome: Outcome) -> None:
    """race.json and the charts."""
    directory.mkdir(parents=True, exist_ok=True)
    _replace(directory / DATA, json.dumps(outcome.as_json(), indent=2, ensure_ascii=False) + "\n")
    title = f"Penstock beside other brokers, {outcome.date}"
    _replace(directory / "race.svg", chart.svg(chart.selected(outcome.standings), title))
    _replace(directory / "race-full.svg", chart.svg(outcome.standings, title))


def _replace(path: Path, text: str) -> None:
    """Whole or not at all, for a run may be cut short while it writes."""
    scratch = path.with_name(path.name + ".new")
    scratch.write_text(text, encoding="utf-8")
    scratch.replace(path)
