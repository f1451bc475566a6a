"""Prints tables with rich. Never truncates a name: long cells are wrapped; control characters are escaped."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

PIPED_COLUMNS = 200
"""Width of a table that is written to a file or a pipe."""


def make_table(
    columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None
) -> Table:
    """A table with numbers aligned to the right."""
    from rich import box
    from rich.markup import escape as escape_markup
    from rich.table import Table

    from penstock.core.printable import escape

    def safe(cell: object) -> str:
        return escape_markup(escape(str(cell)))

    listed = [list(row) for row in rows]
    table = Table(
        title=None if title is None else safe(title),
        title_justify="left",
        title_style="bold",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
    )
    for index, column in enumerate(columns):
        numeric = bool(listed) and all(isinstance(row[index], int) for row in listed)
        table.add_column(safe(column), justify="right" if numeric else "left", overflow="fold")
    for row in listed:
        table.add_row(*map(safe, row))
    return table


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Print a table."""
    from rich.console import Console

    table = make_table(columns, rows, title=title)
    Console(width=None if sys.stdout.isatty() else PIPED_COLUMNS, highlight=False).print(table)
