"""The result of a comparison so far, and its JSON form: written after every row, read to resume or to merge rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from penstock.apps.bench.compare.runs.line_result import LineResult

FORMAT = 3


@dataclass(frozen=True, slots=True)
class Peer:
    """A server of the comparison."""

    version: str
    settings: Mapping[str, str]
    """Settings that differ from its defaults, and why."""


@dataclass(frozen=True, slots=True)
class RowResult:
    """The lines of one row, and when they were measured."""

    date: str
    lines: list[LineResult]


@dataclass(slots=True)
class ComparisonResult:
    """Rows measured in this comparison, and those taken over from an earlier one."""

    facts: dict[str, str]
    missing: Mapping[str, str] = field(default_factory=dict)
    peers: Mapping[str, Peer] = field(default_factory=dict)
    rows: dict[str, RowResult] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    """Rows that failed as a whole, and why."""
    is_quick: bool = False

    @property
    def date(self) -> str:
        return self.facts["date"]

    @property
    def lines(self) -> list[LineResult]:
        """All lines, by number."""
        found = [one for row in self.rows.values() for one in row.lines]
        return sorted(found, key=lambda one: (int("".join(filter(str.isdigit, one.number))), one.number))

    @property
    def older_rows(self) -> dict[str, str]:
        """Rows measured by an earlier comparison, and when."""
        return {name: row.date for name, row in self.rows.items() if row.date != self.date}

    def take_over(self, before: ComparisonResult) -> None:
        """Keep the rows of an earlier result until they are measured again. Quick and full results do not mix."""
        if before.is_quick == self.is_quick:
            self.rows, self.broken = dict(before.rows), dict(before.broken)

    def as_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "is_quick": self.is_quick,
            "machine": self.facts,
            "missing": dict(self.missing),
            "peers": {name: asdict(peer) for name, peer in self.peers.items()},
            "broken": self.broken,
            "rows": [
                {"name": name, "date": row.date, "lines": [one.as_json() for one in row.lines]}
                for name, row in self.rows.items()
            ],
        }


def read_result(path: Path) -> ComparisonResult | None:
    """The result in a file; None if there is no file, or one in an older format."""
    if not path.exists():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    if content.get("format") != FORMAT:
        return None
    return ComparisonResult(
        content["machine"],
        content["missing"],
        {name: Peer(**peer) for name, peer in content["peers"].items()},
        {
            row["name"]: RowResult(row["date"], [LineResult.from_json(one) for one in row["lines"]])
            for row in content["rows"]
        },
        content["broken"],
        content["is_quick"],
    )
