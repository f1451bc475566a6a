"""The first lines of a report: what the figures were measured on. Never measures."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table


def show_header(console: Console, facts: Mapping[str, str]) -> None:
    grid = Table.grid(padding=(0, 2))
    for name, text in facts.items():
        grid.add_row(f"[dim]{name}", text)
    console.print(grid)
