"""The race's result as files: JSON, a picture, and a table in a page of its own or inside one. Never measures."""

from __future__ import annotations

import json
from pathlib import Path

from penstock.apps.race import chart, tables
from penstock.apps.race.contest import Outcome

BEGIN, END = "<!-- race: begin -->", "<!-- race: end -->"
"""What stands between them in a page belongs to the race; the rest is left alone."""


class NoPlace(Exception):
    """A page without the two marks."""


def write_files(directory: Path, outcome: Outcome) -> None:
    """race.md, race.json and race.svg."""
    write_data(directory, outcome)
    _replace(directory / "race.md", f"# The race, {outcome.date}\n\n{_table(outcome)}")


def write_page(page: Path, outcome: Outcome) -> None:
    """The table into a page between its marks, data and picture into a directory of the page's name beside it."""
    directory = page.with_suffix("")
    write_data(directory, outcome)
    before, after = place_in(page)
    picture = f"![Penstock and others, row by row]({directory.name}/race.svg)"
    content = f"Run of {outcome.date}.\n\n{picture}\n\n{_table(outcome)}"
    _replace(page, f"{before}{BEGIN}\n{content}{END}{after}")


def place_in(page: Path) -> tuple[str, str]:
    """What stands in a page before and behind the result. Raises NoPlace; a page that is not there yet has one."""
    text = page.read_text(encoding="utf-8") if page.exists() else f"# The race\n\n{BEGIN}\n{END}\n"
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise NoPlace(f"{page} has no place for the result: a line {BEGIN} and below it a line {END}")
    return before, after


def write_data(directory: Path, outcome: Outcome) -> None:
    """race.json and race.svg."""
    directory.mkdir(parents=True, exist_ok=True)
    content = {
        "machine": outcome.facts,
        "missing": dict(outcome.missing),
        "broken": outcome.broken,
        "rows": [one.as_json() for one in outcome.standings],
    }
    _replace(directory / "race.json", json.dumps(content, indent=2, ensure_ascii=False) + "\n")
    _replace(directory / "race.svg", chart.svg(outcome.standings, f"Penstock and others, {outcome.date}"))


def _table(outcome: Outcome) -> str:
    return tables.markdown(outcome.standings, outcome.facts, outcome.missing, outcome.broken)


def _replace(path: Path, text: str) -> None:
    """Whole or not at all, for a run may be cut short while it writes."""
    scratch = path.with_name(path.name + ".new")
    scratch.write_text(text, encoding="utf-8")
    scratch.replace(path)
