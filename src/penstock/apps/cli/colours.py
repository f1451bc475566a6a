"""Colours for terminals. Off where output goes elsewhere, and with NO_COLOR set to anything (no-color.org)."""

from __future__ import annotations

import os
import re
import sys
from typing import IO, Any

import click

_JSON_TOKEN = re.compile(
    r'(?P<name>"(?:[^"\\]|\\.)*")(?=\s*:)|(?P<text>"(?:[^"\\]|\\.)*")'
    r"|(?P<number>-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)|(?P<word>\b(?:true|false|null|NaN|Infinity)\b)"
)
_JSON_COLOURS = {"name": "cyan", "text": "green", "number": "yellow", "word": "magenta"}

STATE_COLOURS = {"ok": "green", "warning": "yellow", "failed": "red"}


def has_colours(stream: IO[Any] | None = None) -> bool:
    """Whether the stream, by default stdout, is a terminal that may show colours."""
    return (stream or sys.stdout).isatty() and not os.environ.get("NO_COLOR")


def coloured_json(text: str) -> str:
    """JSON text with names, strings, numbers and words in colours."""
    return _JSON_TOKEN.sub(lambda match: click.style(match[0], fg=_JSON_COLOURS[match.lastgroup or ""]), text)
