"""Shows the progress of pipelines: a live table on a terminal, JSON lines otherwise."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from rich.console import Group

    from penstock.spark.pipelines.progress import Progress

COLUMNS = ("pipeline", "state", "restarts", "batch", "rows", "rows/s", "batch ms", "behind", "state rows")


def cells(look: Progress) -> tuple[object, ...]:
    behind = ", ".join(f"{topic} {count}" for topic, count in look.lag.items()) or "-"
    return (
        look.pipeline,
        look.state,
        look.restarts,
        "-" if look.batch < 0 else look.batch,
        look.rows_total,
        round(look.rows_per_s),
        look.batch_ms,
        behind,
        look.state_rows,
    )


def failure_lines(looks: Sequence[Progress]) -> list[str]:
    """The last failure of each pipeline, with its time."""
    return [
        f"{look.pipeline} {look.state}: {look.failed_at} {look.error.removeprefix(f'{look.pipeline}: ')}"
        for look in looks
        if look.error
    ]


@contextmanager
def view() -> Iterator[Callable[[list[Progress]], None]]:
    """A function that displays progress, for the duration of the block."""
    if not sys.stdout.isatty():
        yield JsonLines().show
        return
    from rich.live import Live

    with Live(_table([]), refresh_per_second=4) as live:
        yield lambda looks: live.update(_table(looks))


class JsonLines:
    """One line per batch and per change of state."""

    def __init__(self) -> None:
        self._shown: dict[str, tuple[object, ...]] = {}

    def show(self, looks: Sequence[Progress]) -> None:
        for look in looks:
            news = (look.batch, look.state, look.restarts)
            if self._shown.get(look.pipeline) != news:
                self._shown[look.pipeline] = news
                click.echo(json.dumps(look.plain()))


def _table(looks: Sequence[Progress]) -> Group:
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(*COLUMNS, box=box.SIMPLE_HEAD, pad_edge=False)
    for look in looks:
        table.add_row(*(str(cell) for cell in cells(look)))
    return Group(table, *(Text(line) for line in failure_lines(looks)))


@contextmanager
def replay_bar(title: str) -> Iterator[Callable[[int, int, int], None]]:
    """A progress bar on a terminal, a JSON line per piece otherwise."""
    if not sys.stdout.isatty():
        yield lambda done, total, rows: click.echo(json.dumps({"pieces": done, "of": total, "rows": rows}))
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns) as progress:
        task = progress.add_task(title, total=None)

        def show(done: int, total: int, rows: int) -> None:
            progress.update(task, completed=done, total=total, description=f"{title}: {rows:,} rows")

        yield show
