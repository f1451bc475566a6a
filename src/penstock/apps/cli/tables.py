"""Tables on the terminal, by rich. Never cuts a name: what does not fit is folded."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

PIPED_COLUMNS = 200
"""Width of a table that goes to a file or another program, where nobody sees an edge."""


def show_table(columns: Sequence[str], rows: Iterable[Sequence[object]], *, title: str | None = None) -> None:
    """Print rows under their columns, numbers to the right."""
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    listed = [list(row) for row in rows]
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        numeric = bool(listed) and all(isinstance(row[index], int) for row in listed)
        table.add_column(column, justify="right" if numeric else "left", overflow="fold")
    for row in listed:
        table.add_row(*(escape(str(cell)) for cell in row))
    Console(width=None if sys.stdout.isatty() else PIPED_COLUMNS, highlight=False).print(table)
