"""Terminal output of the demo: titles, lines, tables and checks; and waiting for what is checked."""

from __future__ import annotations

import time
from collections.abc import Callable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

SECONDS_MAX = 30.0


class Stage:
    """Prints the demo to one terminal."""

    def __init__(self) -> None:
        self.console = Console(highlight=False)
        self._started = time.monotonic()

    def act(self, title: str, about: str) -> None:
        self.console.print()
        self.console.rule(f"[bold]{title}", align="left", style="cyan")
        self.console.print(f"[dim]{about}")

    def say(self, text: str) -> None:
        self.console.print(f"  {text}")

    def check(self, holds: bool, text: str) -> bool:
        """Print a check and whether it passed; returns `holds`."""
        mark = "[bold green]✔[/]" if holds else "[bold red]✘[/]"
        self.console.print(f"  {mark} {text}")
        return holds

    def table(self, *columns: str, rows: list[tuple[str, ...]]) -> None:
        table = Table(*columns, box=None, pad_edge=False, padding=(0, 2), header_style="bold")
        for row in rows:
            table.add_row(*row)
        self.console.print()
        self.console.print(table)
        self.console.print()

    def progress(self) -> Progress:
        return Progress(
            TextColumn("  {task.description}"),
            BarColumn(bar_width=32),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            console=self.console,
            transient=True,
        )

    def curtain(self, held: bool) -> None:
        took_s = time.monotonic() - self._started
        verdict = (
            "[bold green]All checks passed.[/]"
            if held
            else "[bold red]A check failed: see the red line above.[/]"
        )
        self.console.print(f"\n{verdict} [dim]({took_s:.1f} s)[/]")


def wait_for(holds: Callable[[], bool]) -> bool:
    """Poll until the condition holds; False after SECONDS_MAX."""
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        if holds():
            return True
        time.sleep(0.02)
    return False
