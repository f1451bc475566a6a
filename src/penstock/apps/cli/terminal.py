"""Prints the text output of commands. Escapes client-supplied names, so that they cannot control the terminal.

JSON needs no escaping: its encoder escapes everything that is not ASCII.
"""

from __future__ import annotations

from typing import IO, Any

import click

from penstock.apps.cli.colours import has_colours
from penstock.core.printable import escape


def say(text: str, *, err: bool = False) -> None:
    """Print one or more lines."""
    click.echo(escape_lines(text), err=err)


def say_labelled(label: str, text: str, colour: str, *, file: IO[Any] | None = None) -> None:
    """Print a line with a label in front, which is coloured on a terminal."""
    shown = click.style(label, fg=colour, bold=True) if has_colours(file) else label
    click.echo(f"{shown} {escape_lines(text)}", file=file)


def escape_lines(text: str) -> str:
    """Escape everything except line breaks, which come from the caller."""
    return "\n".join(map(escape, text.split("\n")))


def shown_bytes(size: int) -> str:
    """`0 B`, `1.5 KiB`, `3.2 GiB`: rounded, for people."""
    value, units = float(size), ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while value >= 1024 and len(units) > 1:
        value /= 1024
        units.pop(0)
    return f"{value:.0f} {units[0]}" if units[0] == "B" else f"{value:.1f} {units[0]}"


def counted(count: int, noun: str, many: str | None = None) -> str:
    """`1 record`, `2 records`, `1,000 records`."""
    return f"{count:,} {noun if count == 1 else many or noun + 's'}"
