"""The race's result for people: a table on the terminal and in Markdown. Never measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from bench.race.entrants import OURS
from bench.race.standing import Standing, spread


def names_of(standings: Sequence[Standing]) -> list[str]:
    """Everybody who ran, us first."""
    found = dict.fromkeys(name for one in standings for name in one.samples)
    return sorted(found, key=lambda name: name != OURS)


def number(value: float) -> str:
    if value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def cell(one: Standing, name: str) -> str:
    """A runner's median and how far its laps lie apart."""
    samples = one.samples.get(name)
    if not samples:
        return "–"
    return f"{number(one.value(name) or 0.0)} ±{spread(samples) / 2:.0%}"


def verdict(one: Standing) -> str:
    """Ours to the best of the others, and against the target."""
    if one.best_peer is None:
        return "nobody to compare with"
    if one.noisy:
        return f"refused: laps of {' and '.join(one.noisy)} too far apart"
    ratio = one.ratio
    if ratio is None:
        return "we did not run"
    told = f"{ratio:.2f} × {one.best_peer}"
    if one.target is None:
        return told
    return f"{told}, {'met' if ratio >= one.target else 'NOT met'} (≥ {one.target:g})"


def show(console: Console, standings: Sequence[Standing]) -> None:
    table = Table(title="The race", title_justify="left")
    for column in ("#", "row", "unit", *names_of(standings), "ours ÷ best"):
        table.add_column(column)
    for one in standings:
        cells = [cell(one, name) for name in names_of(standings)]
        table.add_row(one.number, one.row, one.unit, *cells, verdict(one))
    console.print(table)


def markdown(standings: Sequence[Standing], facts: Mapping[str, str], missing: Mapping[str, str]) -> str:
    """The whole result as a page."""
    names = names_of(standings)
    lines = [f"| {name} | {text} |" for name, text in facts.items()]
    lines = ["| measured on | |", "|---|---|", *lines, ""]
    lines += [f"- **{name} is missing**: {why}" for name, why in missing.items()]
    lines += [
        "",
        f"| # | row | unit | {' | '.join(names)} | ours ÷ best |",
        "|---|---|---|" + "---|" * (len(names) + 1),
    ]
    for one in standings:
        cells = " | ".join(cell(one, name) for name in names)
        lines.append(f"| {one.number} | {one.row} | {one.unit} | {cells} | {verdict(one)} |")
    for one in standings:
        lines += [
            f"\nRow {one.number}: {name} did not run: {why}." for name, why in (one.absent or {}).items()
        ]
    return "\n".join(lines) + "\n"
