"""A view: what a command has found, as JSON or YAML for programs, and as lines and a table for people."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import click

from penstock.apps.cli.failures import to_click_error
from penstock.apps.cli.plain_output import TABLE, say_content, say_next
from penstock.apps.cli.terminal import escape_lines, say
from penstock.apps.cli.watch import show_repeatedly
from penstock.client.errors import ClientError

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass
class View:
    """What is shown: plain content, or lines and a table."""

    content: Any
    lines: list[str] = field(default_factory=list)
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()
    note: str = ""

    def show(self, output: str, *, is_next: bool = False) -> None:
        """Print it; `is_next` if it is one of several."""
        from penstock.apps.cli.tables import show_table

        if self.note:
            say(self.note, err=True)
        if output != TABLE:
            (say_next if is_next else say_content)(self.content, output)
            return
        if self.lines:
            say("\n".join(self.lines))
        if self.rows:
            show_table(self.columns, self.rows)

    def render(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        from penstock.apps.cli.tables import make_table

        head = Text(escape_lines("\n".join([*self.lines, *filter(None, [self.note])])))
        return Group(head, make_table(self.columns, self.rows)) if self.rows else head


def show_view(read: Callable[[], View], output: str, *, is_watched: bool = False) -> None:
    """Show a view once, or again and again."""
    if not is_watched:
        read().show(output)
        return

    def fetch() -> View:
        try:
            return read()
        except (click.ClickException, ClientError) as error:  # people watch because brokers fail
            shown = error if isinstance(error, click.ClickException) else to_click_error(error)
            return View({"error": shown.message}, [shown.message])

    show_repeatedly(fetch, lambda view: view.show(output, is_next=True), View.render, output)
