"""`penstock pipeline validate`: reports every error that can be found before a run. Runs nothing."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.spark.errors import ProjectProblem
    from penstock.spark.pipelines.definition import Project


def check_project(project: Project, *, is_offline: bool, has_spark: bool) -> list[str]:
    """Notes about a valid project. Raises WrongDefinition with the errors of all checks."""
    problems: list[ProjectProblem] = []
    notes: list[str] = []
    if not is_offline:
        found, more = _check_topics(project)
        problems += found
        notes += more
    if has_spark:
        problems += _check_queries(project)
    if problems:
        raise project.locations.located(problems)
    return notes


def check_file(file: Path, *, is_offline: bool, has_spark: bool) -> tuple[Project, list[str]]:
    """Load and check a file. Errors in the file do not hide those of the other checks. Raises WrongDefinition."""
    from penstock.spark.errors import WrongDefinition
    from penstock.spark.pipelines.loader import WrongProject, load_project

    try:
        project = load_project(file)
    except WrongProject as error:
        found = list(error.problems)
        if error.readable is None:
            raise
        try:
            check_project(error.readable, is_offline=is_offline, has_spark=has_spark)
        except WrongDefinition as more:
            known = {one.path for one in found}
            found += [one for one in more.problems if one.path not in known]
        raise WrongDefinition(sorted(found, key=lambda one: one.line or 0)) from error
    return project, check_project(project, is_offline=is_offline, has_spark=has_spark)


def _check_topics(project: Project) -> tuple[list[ProjectProblem], list[str]]:
    from penstock.client.errors import ClientError
    from penstock.spark.errors import ProjectProblem
    from penstock.spark.pipelines.preparation import find_topics

    try:
        found = find_topics(project, project.pipelines)
    except ClientError as error:
        remedy = "Start the broker, or skip the topics with --offline."
        return [ProjectProblem("bootstrap", f"{error}.", remedy)], []
    notes = [f"topic {name} does not exist yet; run creates it." for name in found.to_create]
    notes += [f"no topic matches the pattern {one} yet." for one in found.unmatched]
    return found.problems, notes


def _check_queries(project: Project) -> list[ProjectProblem]:
    from penstock.spark.pipelines.analysis import analysed
    from penstock.spark.pipelines.session import spark_for

    with spark_for(project) as spark:
        return analysed(spark, project, project.pipelines)
