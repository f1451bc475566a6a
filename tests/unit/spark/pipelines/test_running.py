"""Watching pipelines: whatever ends badly is told, at whatever moment of a look it ends. Never a Spark here."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.spark.pipelines.problems import RunFailed
from penstock.spark.pipelines.progress import Progress
from penstock.spark.pipelines.running import Running, watch

LOOKS_MAX = 6


@dataclass
class EndingQuery:
    """A query that has ended after it was asked so many times whether it runs."""

    asked_max: int
    error: str | None
    recentProgress: list[Any] = field(default_factory=list)
    asked: int = 0

    @property
    def isActive(self) -> bool:
        self.asked += 1
        return self.asked <= self.asked_max

    def exception(self) -> str | None:
        return self.error if self.asked > self.asked_max else None


def watched(query: EndingQuery) -> list[Progress]:
    """The last look of a watch over one pipeline."""
    noted: list[Any] = []
    state: Any = SimpleNamespace(put_status=noted.append)
    pipeline: Any = SimpleNamespace(name="sums")
    shown: list[list[Progress]] = []
    watch([Running(pipeline, state, query, None)], shown.append, lambda: False)  # type: ignore[arg-type]
    return shown[-1]


@pytest.mark.parametrize("asked_max", range(LOOKS_MAX))
def test_a_query_that_fails_at_any_moment_is_told(asked_max: int) -> None:
    with pytest.raises(RunFailed, match="sums: it went wrong"):
        watched(EndingQuery(asked_max, "terminated with exception: it went wrong"))


@pytest.mark.parametrize("asked_max", range(LOOKS_MAX))
def test_a_query_that_ends_well_is_seen_as_stopped(asked_max: int) -> None:
    (last,) = watched(EndingQuery(asked_max, None))
    assert (last.state, last.error) == ("stopped", "")
