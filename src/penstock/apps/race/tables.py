"""The result for people: a line for each row, a table on the terminal, and the page in Markdown. Never measures."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from penstock.apps.race.entrants import OURS
from penstock.apps.race.outcome import Outcome
from penstock.apps.race.standing import Standing, spread

NONE = "–"


def names_of(standings: Sequence[Standing]) -> list[str]:
    """Every server that ran, ours first."""
    found = dict.fromkeys(name for one in standings for name in one.samples)
    return sorted(found, key=lambda name: name != OURS)


def number(value: float) -> str:
    if value >= 1_000:
        return f"{value:,.0f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def cell(one: Standing, name: str) -> str:
    """Median and half the spread of the laps; a single lap has no spread."""
    samples = one.samples.get(name)
    if not samples:
        return NONE
    if len(samples) == 1:
        return f"{number(samples[0])} (one lap)"
    return f"{number(one.value(name) or 0.0)} ±{spread(samples) / 2:.0%}"


def cold_cell(one: Standing, name: str) -> str:
    cold, warm = one.cold.get(name), one.value(name)
    return NONE if cold is None or warm is None else f"{number(cold)} → {number(warm)}"


def cpu_cell(one: Standing, name: str) -> str:
    """`1.9 µs, 1.8 s`: per message, and per GB where the row has a message size."""
    cost_us, per_gb_s = one.cpu_us_per_message(name), one.cpu_s_per_gb(name)
    if cost_us is None:
        return NONE
    told = f"{number(cost_us)} µs" if cost_us < 10_000 else f"{number(cost_us / 1000)} ms"
    return told if per_gb_s is None else f"{told}, {number(per_gb_s)} s"


def verdict(one: Standing) -> str:
    """Ours to the best of the others and to single peers, and against the targets."""
    if one.bound_max is not None:
        return _against_bound(one, one.bound_max)
    if one.best_peer is None:
        return "no peer to compare with"
    told = [_ratio(one, one.best_peer, one.target)]
    told += [_ratio(one, peer, least) for peer, least in one.over.items() if one.value(peer)]
    return "; ".join(dict.fromkeys(told))


def _ratio(one: Standing, peer: str, least: float | None) -> str:
    ratio = one.ratio_to(peer)
    if ratio is None:
        return "Penstock did not run"
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
        return "Penstock did not run"
    return f"{'met' if value <= bound else 'NOT met'} (≤ {bound:g})"


def line(one: Standing) -> str:
    """A row's whole result in one line."""
    figures = ", ".join(f"{name} {cell(one, name)}" for name in names_of([one]))
    notes = "".join(f"; {name}: {why}" for name, why in one.absent.items())
    return f"{figures or 'no server ran'} {one.unit}; {verdict(one)}{notes}"


def show(console: Console, standings: Sequence[Standing]) -> None:
    table = Table(title="Penstock beside other brokers", title_justify="left")
    for column in ("#", "row", "unit", *names_of(standings), "ours ÷ best"):
        table.add_column(column)
    for one in standings:
        cells = [cell(one, name) for name in names_of(standings)]
        table.add_row(one.number, one.row, one.unit, *cells, verdict(one))
    console.print(table)


def markdown(outcome: Outcome) -> str:
    """All of the page that derives from the result."""
    standings = outcome.standings
    sections = [
        _table(standings, cell, "unit", lambda one: one.unit, "ours ÷ best", verdict),
        _notes(outcome),
        "### Where Penstock lost, and why\n" + _losses(standings),
        _cold(standings),
        _costs(standings),
        "### Versions and settings\n" + _peers(outcome),
        "### Machine\n| | |\n|---|---|\n"
        + "\n".join(f"| {name} | {text} |" for name, text in outcome.facts.items()),
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def _cold(standings: Sequence[Standing]) -> str:
    shown = [one for one in standings if one.cold]
    if not shown:
        return ""
    return (
        "### Cold and warm\nThe first lap of a server that was started for it → the median of the warm laps. Ratios"
        " count the warm ones.\n\n"
    ) + _table(shown, cold_cell, "unit", lambda one: one.unit)


def _costs(standings: Sequence[Standing]) -> str:
    shown = [one for one in standings if one.cpu_us]
    return (
        "### CPU time of the server\nOf its whole process tree, per message and, where all messages have one size, per"
        " GB of them. In row 7 each delivered copy counts as a message, in row 9 each message counts once written and"
        " once read, and row 10 shows the time from exec to the first record.\n\n"
    ) + _table(shown, cpu_cell)


def _table(
    standings: Sequence[Standing],
    of: Callable[[Standing, str], str],
    second: str = "",
    of_second: Callable[[Standing], str] | None = None,
    last: str = "",
    of_last: Callable[[Standing], str] | None = None,
) -> str:
    """A line for each standing, a column for each server, and columns before and behind these."""
    names = names_of(standings)
    head = ["#", "row", *filter(None, [second]), *names, *filter(None, [last])]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for one in standings:
        cells = [one.number, one.row]
        cells += [of_second(one)] if of_second else []
        cells += [of(one, name) for name in names]
        cells += [of_last(one)] if of_last else []
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _notes(outcome: Outcome) -> str:
    notes = [f"- **{name} is missing**: {why}" for name, why in outcome.missing.items()]
    notes += [f"- **{row} could not be run**: {why}" for row, why in outcome.broken.items()]
    notes += [f"- Row {row} is from the run of {date}." for row, date in outcome.older_rows.items()]
    for one in outcome.standings:
        same: dict[str, list[str]] = {}
        for name, why in one.absent.items():
            same.setdefault(why, []).append(name)
        notes += [f"- Row {one.number}, {', '.join(names)}: {why}." for why, names in same.items()]
    return "\n".join(notes)


def _losses(standings: Sequence[Standing]) -> str:
    lost = [one for one in standings if (one.ratio is not None and one.ratio < 1) or _missed(one)]
    refused = [one for one in standings if one.bound_max is None and one.noisy]
    lines = [f"- **Row {one.number}, {one.row}**: {verdict(one)}.{_why(one)}" for one in lost]
    if refused:
        rows = ", ".join(one.number for one in refused)
        lines.append(f"- **Refused by the rule of spread**: rows {rows}. They decide nothing.")
    return "\n".join(lines) or "In no row of this run."


def _missed(one: Standing) -> bool:
    return "NOT met" in verdict(one)


def _why(one: Standing) -> str:
    ours = one.cpu_us_per_message(OURS)
    theirs = one.cpu_us_per_message(one.best_peer) if one.best_peer else None
    told = f" {one.why}" if one.why else ""
    if ours is not None and theirs is not None:
        told += f" CPU time per message in this run: Penstock {number(ours)} µs, {one.best_peer} {number(theirs)} µs."
    return told


def _peers(outcome: Outcome) -> str:
    lines = ["| server | version | setting | why |", "|---|---|---|---|"]
    for name, peer in outcome.peers.items():
        for at, (setting, why) in enumerate(peer.settings.items()):
            first = (name, peer.version) if at == 0 else ("", "")
            lines.append(f"| {first[0]} | {first[1]} | `{setting}` | {why} |")
    return "\n".join(lines)
