"""The result as text: one line per figure, a table on the terminal, and the page in Markdown."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rich.console import Console
from rich.table import Table

from penstock.apps.bench.compare.report.result import ComparisonResult
from penstock.apps.bench.compare.runs.contenders import OURS
from penstock.apps.bench.compare.runs.line_result import LineResult
from penstock.apps.bench.harness.samples import format_number, middle_spread

NONE = "–"
RATIO = "Penstock ÷ best peer"


def names_of(results: Sequence[LineResult]) -> list[str]:
    """Every measured server, Penstock first."""
    found = dict.fromkeys(name for one in results for name in one.samples)
    return sorted(found, key=lambda name: name != OURS)


def cell(one: LineResult, name: str) -> str:
    """Median and half the spread of the runs, or the worst of them; a single run has no spread."""
    samples = one.samples.get(name)
    if not samples:
        return NONE
    if one.is_worst and len(samples) > 1:
        return f"{format_number(one.value(name) or 0.0)} (worst)"
    if len(samples) == 1:
        return f"{format_number(samples[0])} (one run)"
    return f"{format_number(one.value(name) or 0.0)} ±{middle_spread(samples) / 2:.0%}"


def cold_cell(one: LineResult, name: str) -> str:
    cold, warm = one.cold.get(name), one.value(name)
    return NONE if cold is None or warm is None else f"{format_number(cold)} → {format_number(warm)}"


def cpu_cell(one: LineResult, name: str) -> str:
    """`1.9 µs, 1.8 s`: per message, and per GB if all messages of the row have one size."""
    cost_us, per_gb_s = one.cpu_us_per_message(name), one.cpu_s_per_gb(name)
    if cost_us is None:
        return NONE
    text = f"{format_number(cost_us)} µs" if cost_us < 10_000 else f"{format_number(cost_us / 1000)} ms"
    return text if per_gb_s is None else f"{text}, {format_number(per_gb_s)} s"


def verdict(one: LineResult) -> str:
    """Ratio of Penstock to its best peer and to single peers, compared with the targets."""
    if one.bound_max is not None or one.bound_min is not None:
        return "; ".join([_against_bounds(one), *_single_ratios(one)])
    if one.best_peer is None:
        return "no peer to compare with"
    ratios = [_ratio(one, one.best_peer, one.target), *_single_ratios(one)]
    return "; ".join(dict.fromkeys(ratios))


def _single_ratios(one: LineResult) -> list[str]:
    return [_ratio(one, peer, least) for peer, least in one.over.items() if one.value(peer)]


def _ratio(one: LineResult, peer: str, least: float | None) -> str:
    ratio = one.ratio_to(peer)
    if ratio is None:
        return "Penstock did not run"
    noisy = one.noisy_with(peer)
    if noisy:
        inconclusive = f"inconclusive: runs of {' and '.join(noisy)} vary too much"
        sure = one.least_ratio_to(peer)
        return (
            f"{inconclusive}; worst run of Penstock is {sure:.2f} × the best of {peer}"
            if sure >= (least or 1)
            else inconclusive
        )
    text = f"{ratio:.2f} × {peer}" + ("" if one.has_spread(peer) else " (one run)")
    return text if least is None else f"{text}, {'met' if ratio >= least else 'NOT met'} (≥ {least:g})"


def _against_bounds(one: LineResult) -> str:
    value = one.value(OURS)
    if value is None:
        return "Penstock did not run"
    if one.bound_max is not None:
        return f"{'met' if value <= one.bound_max else 'NOT met'} (≤ {one.bound_max:g})"
    assert one.bound_min is not None
    return f"{'met' if value >= one.bound_min else 'NOT met'} (≥ {one.bound_min:g})"


def line(one: LineResult) -> str:
    """The whole result of a line as one line of text."""
    figures = ", ".join(f"{name} {cell(one, name)}" for name in names_of([one]))
    notes = "".join(f"; {name}: {why}" for name, why in one.absent.items())
    return f"{figures or 'no server ran'} {one.unit}; {verdict(one)}{notes}"


def show(console: Console, results: Sequence[LineResult]) -> None:
    table = Table(title="Penstock and other brokers", title_justify="left")
    for column in ("#", "row", "unit", *names_of(results), RATIO):
        table.add_column(column)
    for one in results:
        cells = [cell(one, name) for name in names_of(results)]
        table.add_row(one.number, one.row, one.unit, *cells, verdict(one))
    console.print(table)


def markdown(result: ComparisonResult) -> str:
    """The generated part of the page."""
    results = result.lines
    sections = [
        _table(results, cell, "unit", lambda one: one.unit, RATIO, verdict),
        _notes(result),
        "### Where Penstock is behind, and why\n" + _losses(results),
        _cold(results),
        _costs(results),
        "### Versions and settings\n" + _peers(result),
        "### Machine\n| | |\n|---|---|\n"
        + "\n".join(f"| {name} | {text} |" for name, text in result.facts.items()),
    ]
    return "\n\n".join(filter(None, sections)) + "\n"


def _cold(results: Sequence[LineResult]) -> str:
    shown = [one for one in results if one.cold]
    if not shown:
        return ""
    return (
        "### Cold and warm\nThe first run of a newly started server → the median of the warm runs. Ratios use the"
        " warm runs only.\n\n"
    ) + _table(shown, cold_cell, "unit", lambda one: one.unit)


def _costs(results: Sequence[LineResult]) -> str:
    shown = [one for one in results if one.cpu_us]
    return (
        "### CPU time of the server\nCPU time of its whole process tree per message and, if all messages of a row have"
        " one size, per GB. Row 7 counts each delivered copy as a message, row 9 counts each message once when written"
        " and once when read, row 10 shows the CPU time from exec to the first record, row 18 that of a failover with"
        " the restart of the broker, and row 20 counts what was copied. In rows 15 to 20 it is that of all brokers"
        " together.\n\n"
    ) + _table(shown, cpu_cell)


def _table(
    results: Sequence[LineResult],
    of: Callable[[LineResult, str], str],
    second: str = "",
    of_second: Callable[[LineResult], str] | None = None,
    last: str = "",
    of_last: Callable[[LineResult], str] | None = None,
) -> str:
    """One table row per result, one column per server, with optional columns before and after them."""
    names = names_of(results)
    head = ["#", "row", *filter(None, [second]), *names, *filter(None, [last])]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for one in results:
        cells = [one.number, one.row]
        cells += [of_second(one)] if of_second else []
        cells += [of(one, name) for name in names]
        cells += [of_last(one)] if of_last else []
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _notes(result: ComparisonResult) -> str:
    notes = [f"- **{name} is not available**: {why}" for name, why in result.missing.items()]
    notes += [f"- **{row} failed**: {why}" for row, why in result.broken.items()]
    notes += [f"- Row {row} was measured on {date}." for row, date in result.older_rows.items()]
    for one in result.lines:
        same: dict[str, list[str]] = {}
        for name, why in one.absent.items():
            same.setdefault(why, []).append(name)
        notes += [f"- Row {one.number}, {', '.join(names)}: {why}." for why, names in same.items()]
    return "\n".join(notes)


def _losses(results: Sequence[LineResult]) -> str:
    lost = [one for one in results if (one.ratio is not None and one.ratio < 1) or _missed(one)]
    inconclusive = [one for one in results if one.bound_max is None and one.bound_min is None and one.noisy]
    lines = [f"- **Row {one.number}, {one.row}**: {verdict(one)}.{_why(one)}" for one in lost]
    if inconclusive:
        rows = ", ".join(one.number for one in inconclusive)
        lines.append(f"- **Inconclusive, since runs vary too much**: rows {rows}.")
    return "\n".join(lines) or "In no row."


def _missed(one: LineResult) -> bool:
    return "NOT met" in verdict(one)


def _why(one: LineResult) -> str:
    ours = one.cpu_us_per_message(OURS)
    theirs = one.cpu_us_per_message(one.best_peer) if one.best_peer else None
    text = f" {one.why}" if one.why else ""
    if ours is not None and theirs is not None:
        text += f" CPU time per message: Penstock {format_number(ours)} µs, {one.best_peer} {format_number(theirs)} µs."
    return text


def _peers(result: ComparisonResult) -> str:
    lines = ["| server | version | setting | why |", "|---|---|---|---|"]
    for name, peer in result.peers.items():
        for at, (setting, why) in enumerate(peer.settings.items()):
            first = (name, peer.version) if at == 0 else ("", "")
            lines.append(f"| {first[0]} | {first[1]} | `{setting}` | {why} |")
    return "\n".join(lines)
