"""Errors that pipelines and their tables raise on purpose. Shared by `pipelines` and `lake`; imports neither.

PipelineError
├ WrongDefinition      the project file, or something it names, is invalid; holds every problem found
├ ForeignCheckpoint    the state directory belongs to another definition
├ AlreadyRunning       another process runs this pipeline
├ SchemaMismatch       rows do not fit the table they are written to
├ BadRows              rows could not be decoded and the definition says `bad_rows: fail`
└ RunFailed            Spark gave up; the message says what to do
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ProjectProblem:
    """One error in a definition: where it is, what is wrong, and how to fix it."""

    path: str
    what: str
    remedy: str = ""
    file: str = ""
    line: int | None = None

    def __str__(self) -> str:
        location = f"{self.file}:{self.line}" if self.file and self.line else self.file
        return " ".join(
            part
            for part in (location and f"{location}:", self.path and f"{self.path}:", self.what, self.remedy)
            if part
        )


class PipelineError(Exception):
    """Root of the errors above."""


class WrongDefinition(PipelineError):
    """The definition is invalid; the message has one line per problem."""

    def __init__(self, problems: list[ProjectProblem]) -> None:
        super().__init__("\n".join(str(problem) for problem in problems))
        self.problems = problems


class ForeignCheckpoint(PipelineError):
    """The state directory belongs to another definition."""


class AlreadyRunning(PipelineError):
    """Another process runs this pipeline; two would corrupt its checkpoint."""


class SchemaMismatch(PipelineError):
    """Rows do not fit the table they are written to."""


class BadRows(PipelineError):
    """Rows could not be decoded, and the definition does not allow dead letters."""


class RunFailed(PipelineError):
    """Spark gave up on a pipeline."""
