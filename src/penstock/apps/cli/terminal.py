"""Prints the text output of commands. Escapes client-supplied names, so that they cannot control the terminal.

JSON needs no escaping: its encoder escapes everything that is not ASCII.
"""

from __future__ import annotations

import click

from penstock.core.printable import escape


def say(text: str, *, err: bool = False) -> None:
    """Print one or more lines."""
    click.echo(escape_lines(text), err=err)


def escape_lines(text: str) -> str:
    """Escape everything except line breaks, which come from the caller."""
    return "\n".join(map(escape, text.split("\n")))


def counted(count: int, noun: str, many: str | None = None) -> str:
    """`1 record`, `2 records`, `1,000 records`."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"
