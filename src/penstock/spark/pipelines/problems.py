"""What is wrong with a definition or a run, in words. Never prints them.

PipelineError
├ WrongDefinition      the file, or what it names, cannot be run; holds every problem that was found
├ ForeignCheckpoint    the state directory belongs to another definition
├ AlreadyRunning       another process runs this pipeline
├ SchemaMismatch       rows do not fit the table that they go to
├ BadRows              rows could not be read and the definition says to stop then
└ RunFailed            Spark gave up; the message says what to do
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(frozen=True)
class ProjectProblem:
    """One thing that is wrong: where in the definition, what, and what to do about it."""

    path: str
    what: str
    remedy: str = ""
    file: str = ""
    line: int | None = None

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.file and self.line else self.file
        return " ".join(
            part
            for part in (place and f"{place}:", self.path and f"{self.path}:", self.what, self.remedy)
            if part
        )


@dataclass
class Problems:
    """All that was found so far; checking goes on after a problem so that a person sees all of them at once."""

    found: list[ProjectProblem] = field(default_factory=list)

    def add(self, path: str, what: str, remedy: str = "") -> None:
        self.found.append(ProjectProblem(path, what, remedy))

    def unknown(self, path: str, word: str, known: Iterable[str], thing: str) -> None:
        """A word that is none of those known, with the one that was probably meant."""
        self.add(path, f"unknown {thing} {word!r}.", suggestion(word, known))

    def raise_any(self) -> None:
        if self.found:
            raise WrongDefinition(self.found)


def suggestion(word: str, known: Iterable[str]) -> str:
    """`Did you mean 'topics'?`, or all there is when nothing is near."""
    listed = sorted(known)
    near = difflib.get_close_matches(word, listed, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(listed)}."


class PipelineError(Exception):
    """Everything that a pipeline raises on purpose."""


class WrongDefinition(PipelineError):
    """One line per problem."""

    def __init__(self, problems: list[ProjectProblem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class ForeignCheckpoint(PipelineError):
    """The state directory belongs to another definition."""


class AlreadyRunning(PipelineError):
    """Another process runs this pipeline; two at once would fight over its checkpoint."""


class SchemaMismatch(PipelineError):
    """Rows do not fit the table that they go to."""


class BadRows(PipelineError):
    """Rows that cannot be read, where the definition wants none to pass."""


class RunFailed(PipelineError):
    """Spark gave up on a pipeline."""
