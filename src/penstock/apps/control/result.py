"""What a command of the console answers: a value, and how it is rendered as text or JSON. Writes nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from penstock.apps.control.commands import ConsoleError
from penstock.core.printable import escape

SEPARATOR = "  "


@dataclass(frozen=True, slots=True)
class CommandResult:
    """The answer to one command."""

    content: Mapping[str, Any] = field(default_factory=dict)
    """For programs."""
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = ()
    lines: Sequence[str] = ()
    """Text after the table."""
    exit_status: int = 0
    leaves: bool = False
    """Whether this console ends after it."""

    def as_text(self) -> str:
        """An aligned table, then the lines; without a line break at the end."""
        table = table_lines(self.columns, self.rows) if self.rows else []
        return "\n".join([*table, *map(escape, self.lines)])

    def as_json(self) -> str:
        """One line."""
        return json.dumps(self.content)

    def render(self, *, as_json: bool) -> str:
        return self.as_json() if as_json else self.as_text()


def failed_result(error: ConsoleError) -> CommandResult:
    """The answer to a command that failed."""
    content = {"error": error.message, "code": error.failure.code, "what_to_do": error.remedy}
    return CommandResult(content, lines=[f"error: {error}"], exit_status=error.failure.exit_status)


def table_lines(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Aligned columns under their names; those with numbers only are aligned to the right."""
    cells = [[escape(str(cell)) for cell in row] for row in rows]
    is_number = [all(isinstance(row[index], int) for row in rows) for index in range(len(columns))]
    widths = [
        max(map(len, (columns[index], *(row[index] for row in cells)))) for index in range(len(columns))
    ]

    def line(row: Sequence[str]) -> str:
        padded = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        ]
        return SEPARATOR.join(padded).rstrip()

    return [line(columns), *map(line, cells)]


def duration_text(seconds: float | None) -> str:
    """`7 s`, `3 m 07 s`, `2 h 05 m`, `4 d 03 h`."""
    if seconds is None:
        return "-"
    whole = int(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3_600:
        return f"{whole // 60} m {whole % 60:02} s"
    if whole < 86_400:
        return f"{whole // 3_600} h {whole % 3_600 // 60:02} m"
    return f"{whole // 86_400} d {whole % 86_400 // 3_600:02} h"
