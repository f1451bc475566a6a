"""The one way in which commands print text. Escapes what clients chose, so that no name can control a terminal.

JSON needs no escape: what is not ASCII is escaped by its encoder, and stays exact.
"""

from __future__ import annotations

import click

from penstock.core.printable import escape


def say(text: str, *, err: bool = False) -> None:
    """Print one or more lines."""
    click.echo(escape_lines(text), err=err)


def escape_lines(text: str) -> str:
    """Escape everything but the line breaks, which are the caller's own."""
    return "\n".join(map(escape, text.split("\n")))


def counted(count: int, noun: str, many: str | None = None) -> str:
    """`1 record`, `2 records`, `1,000 records`."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"
