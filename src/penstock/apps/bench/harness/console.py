"""Terminal output that all benchmarks share: console, progress bar, and the header that describes the machine."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.progress import Progress, ProgressColumn
from rich.table import Table


def report_console(columns: int) -> Console:
    """The terminal, or `columns` wide where the output goes to a file or a pipe."""
    console = Console()
    return console if console.is_terminal else Console(width=columns)


def quiet_progress(console: Console, *columns: ProgressColumn) -> Progress:
    """A progress bar without a refresh thread, which would take CPU time from the load during a measurement."""
    return Progress(*columns, console=console, transient=True, auto_refresh=False)


def show_header(console: Console, facts: Mapping[str, str]) -> None:
    """Print what the figures were measured on."""
    grid = Table.grid(padding=(0, 2))
    for name, text in facts.items():
        grid.add_row(f"[dim]{name}", text)
    console.print(grid)
