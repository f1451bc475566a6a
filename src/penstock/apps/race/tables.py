"""The race's result for people: a table on the terminal and in Markdown. Never measures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table

from penstock.apps.race.entrants import OURS
from penstock.apps.race.standing import Standing, spread


def names_of(standings: Sequence[Standing]) -> list[str]:
    """Everybody who ran, us first."""
    found = dict.fromkeys(name for one in standings for name in one.samples)
    return sorted(found, key=lambda name: name != OURS)


def number(value: float) -> str:
    if value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def cell(one: Standing, name: str) -> str:
    """A runner's median and how far its laps lie apart; of a single lap nobody knows that."""
    samples = one.samples.get(name)
    if not samples:
        return "–"
    if len(samples) == 1:
        return f"{number(samples[0])} (one lap)"
    return f"{number(one.value(name) or 0.0)} ±{spread(samples) / 2:.0%}"


def verdict(one: Standing) -> str:
    """Ours to the best of the others and to those it has to beat, and against the targets."""
    if one.bound_max is not None:
        return _against_bound(one, one.bound_max)
    if one.best_peer is None:
        return "nobody to compare with"
    told = [_ratio(one, one.best_peer, one.target)]
    told += [_ratio(one, peer, least) for peer, least in (one.over or {}).items() if one.value(peer)]
    return "; ".join(told)


def _ratio(one: Standing, peer: str, least: float | None) -> str:
    ratio = one.ratio_to(peer)
    if ratio is None:
        return "we did not run"
    noisy = one.noisy_with(peer)
    if noisy:
        refused = f"refused: laps of {' and '.join(noisy)} too far apart"
        sure = one.least_ratio_to(peer)
        return (
            f"{refused}; our worst lap is {sure:.2f} × the best of {peer}"
            if sure >= (least or 1)
            else refused
        )
    told = f"{ratio:.2f} × {peer}"
    return told if least is None else f"{told}, {'met' if ratio >= least else 'NOT met'} (≥ {least:g})"


def _against_bound(one: Standing, bound: float) -> str:
    value = one.value(OURS)
    if value is None:
        return "we did not run"
    return f"{'met' if value <= bound else 'NOT met'} (≤ {bound:g})"


def line(one: Standing) -> str:
    """A row's whole result in one line."""
    figures = ", ".join(f"{name} {cell(one, name)}" for name in names_of([one]))
    broke = "".join(f"; {name}: {why}" for name, why in (one.absent or {}).items())
    return f"{figures or 'nobody ran'} {one.unit}; {verdict(one)}{broke}"


def show(console: Console, standings: Sequence[Standing]) -> None:
    table = Table(title="The race", title_justify="left")
    for column in ("#", "row", "unit", *names_of(standings), "ours ÷ best"):
        table.add_column(column)
    for one in standings:
        cells = [cell(one, name) for name in names_of(standings)]
        table.add_row(one.number, one.row, one.unit, *cells, verdict(one))
    console.print(table)


def markdown(
    standings: Sequence[Standing],
    facts: Mapping[str, str],
    missing: Mapping[str, str],
    broken: Mapping[str, str],
) -> str:
    """The whole result as a page: the rows, who is not in them and why, what it was measured on."""
    names = names_of(standings)
    lines = [
        f"| # | row | unit | {' | '.join(names)} | ours ÷ best |",
        "|---|---|---|" + "---|" * (len(names) + 1),
    ]
    for one in standings:
        cells = " | ".join(cell(one, name) for name in names)
        lines.append(f"| {one.number} | {one.row} | {one.unit} | {cells} | {verdict(one)} |")
    notes = [f"- **{name} is missing**: {why}" for name, why in missing.items()]
    notes += [f"- **{row} could not be run**: {why}" for row, why in broken.items()]
    notes += [
        f"- Row {one.number}, {name}: {why}." for one in standings for name, why in (one.absent or {}).items()
    ]
    measured = [f"| {name} | {text} |" for name, text in facts.items()]
    return "\n".join([*lines, "", *notes, "", "| measured on | |", "|---|---|", *measured]) + "\n"
