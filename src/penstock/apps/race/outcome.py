"""What a run has found so far, and its form as JSON: written after every row, read to resume or to merge rows."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from penstock.apps.race.standing import Standing

FORMAT = 2


@dataclass(frozen=True, slots=True)
class Peer:
    """A server that takes part."""

    version: str
    settings: Mapping[str, str]
    """What differs from its defaults, and why."""


@dataclass(frozen=True, slots=True)
class RowResult:
    """The lines of one row, and when they were measured."""

    date: str
    standings: list[Standing]


@dataclass(slots=True)
class Outcome:
    facts: dict[str, str]
    missing: Mapping[str, str] = field(default_factory=dict)
    peers: Mapping[str, Peer] = field(default_factory=dict)
    rows: dict[str, RowResult] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    """Rows that could not be run at all, and why."""
    is_quick: bool = False

    @property
    def date(self) -> str:
        return self.facts["date"]

    @property
    def standings(self) -> list[Standing]:
        """All lines, by number."""
        found = [one for row in self.rows.values() for one in row.standings]
        return sorted(found, key=lambda one: (int("".join(filter(str.isdigit, one.number))), one.number))

    @property
    def older_rows(self) -> dict[str, str]:
        """Rows that an earlier run measured, and when."""
        return {name: row.date for name, row in self.rows.items() if row.date != self.date}

    def take_over(self, before: Outcome) -> None:
        """Rows of an earlier run stay until they are measured again. A quick run and a full one do not mix."""
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
                {"name": name, "date": row.date, "standings": [one.as_json() for one in row.standings]}
                for name, row in self.rows.items()
            ],
        }


def read(path: Path) -> Outcome | None:
    """The outcome in a file; None when there is none, or one of an older form."""
    if not path.exists():
        return None
    content = json.loads(path.read_text(encoding="utf-8"))
    if content.get("format") != FORMAT:
        return None
    return Outcome(
        content["machine"],
        content["missing"],
        {name: Peer(**peer) for name, peer in content["peers"].items()},
        {
            row["name"]: RowResult(row["date"], [Standing.from_json(one) for one in row["standings"]])
            for row in content["rows"]
        },
        content["broken"],
        content["is_quick"],
    )
