"""The result of `make bench` as a table and as JSON."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.figures import Figure, Target
from penstock.apps.bench.harness.samples import format_number

OTHERS_MAX = 0.2
"""Number of CPUs that other work may use before the report mentions it."""


def show(console: Console, figures: Mapping[str, list[Figure]], others: Mapping[str, float]) -> None:
    """One line per figure, with a rule between rows."""
    table = Table(title="Penstock: speed and memory", title_justify="left")
    table.add_column("figure")
    for name in ("median", "spread", "target"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("met?", no_wrap=True)
    table.add_column("compared with")
    for found in figures.values():
        for one in found:
            table.add_row(
                one.name, f"{format_number(one.value)} {one.unit}", _spread(one),
                _bound(one.target), _verdict(one), one.compared_with,
            )  # fmt: skip
        table.add_section()
    console.print(table)
    for row, share in others.items():
        if share > OTHERS_MAX:
            console.print(f"[yellow]{row}: other processes used {share:.1f} CPUs; repeat on an idle machine")
    judged = [one for found in figures.values() for one in found if one.target is not None]
    met = sum(1 for one in judged if one.is_met)
    unclear = sum(1 for one in judged if one.is_met is None)
    console.print(
        f"{met} of {len(judged)} targets met, {unclear} inconclusive (noisy samples on both sides of the target);"
        " figures without a target are reported only"
    )


def save(
    path: Path, facts: Mapping[str, str], figures: Mapping[str, list[Figure]], others: Mapping[str, float]
) -> None:
    content = {
        "machine": dict(facts),
        "rows": [
            {"row": row, "others_cpus": others[row], "figures": [one.as_json() for one in found]}
            for row, found in figures.items()
        ],
    }
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _spread(one: Figure) -> str:
    if len(one.samples) < 2:
        return "1 run"
    text = f"{one.spread:.0%} of {len(one.samples)}"
    return f"[yellow]{text}[/]" if one.is_noisy else text


def _bound(target: Target | None) -> str:
    if target is None:
        return ""
    return f"{'≥' if target.is_floor else '≤'} {format_number(target.bound)}"


def _verdict(one: Figure) -> str:
    if one.target is None:
        return ""
    if one.is_met is None:
        return "[yellow]inconclusive"
    if one.is_met:
        return "[green]yes"
    return f"[red]no, {one.target.shortfall(one.value):.2f}×"
