"""Detects pipelines that read their own output, or write to the same table. Never calls the broker or Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from penstock.spark.pipelines.definition import Pipeline, SideTarget
from penstock.spark.pipelines.problems import Problems


def check_conflicts(pipelines: Sequence[Pipeline], home: Path, problems: Problems) -> None:
    """Report pipelines that read their own output, and tables with two writers."""
    for pipeline in pipelines:
        _check_loop(pipeline, problems)
    _check_tables(pipelines, home, problems)


def dead_target(pipeline: Pipeline) -> SideTarget | None:
    """Where bad rows go: as defined, else `<first topic>.dlq`. None without dead letters."""
    how = pipeline.decode
    if how.format == "raw" or how.bad_rows != "dead_letter":
        return None
    if how.dead_letters is None and not pipeline.source.topics:
        return None
    return how.dead_letters or SideTarget(topic=f"{pipeline.source.topics[0]}.dlq")


def side_targets(pipeline: Pipeline) -> Iterator[tuple[str, SideTarget]]:
    """Targets for dead letters and late rows, with their path in the definition."""
    dead = dead_target(pipeline)
    if dead is not None:
        yield "decode.dead_letters", dead
    for index, step in enumerate(pipeline.steps):
        if step.window and step.window.late:
            yield f"steps[{index}].window.late", step.window.late


def _check_loop(pipeline: Pipeline, problems: Problems) -> None:
    path = f"pipelines.{pipeline.name}"
    written = [("sink", pipeline.sink.topic)]
    written += [(where, target.topic) for where, target in side_targets(pipeline)]
    for where, topic in written:
        if topic is None:
            continue
        if topic in pipeline.source.topics:
            problems.add(
                f"{path}.{where}.topic",
                f"is {topic}, which this pipeline also reads: an endless loop.",
                "Write to another topic.",
            )
        if pipeline.source.pattern and _matches(pipeline.source.pattern, topic):
            problems.add(
                f"{path}.source.pattern",
                f"{pipeline.source.pattern!r} matches {topic}, which this pipeline writes ({where}): an endless loop.",
                "Narrow the pattern, or write to a topic that it does not match.",
            )


def _matches(pattern: str, topic: str) -> bool:
    try:
        return re.fullmatch(pattern, topic) is not None
    except re.error:
        return False


def _check_tables(pipelines: Sequence[Pipeline], home: Path, problems: Problems) -> None:
    """A sink's table has one writer. Dead letters and late rows of several pipelines may share a table."""
    owners: list[tuple[Path, str]] = []
    for pipeline in pipelines:
        if pipeline.sink.table is None:
            continue
        place = (home / pipeline.sink.table).resolve()
        for there, owner in owners:
            if place == there or place in there.parents or there in place.parents:
                relation = (
                    "is also the table" if place == there else "overlaps with the directory of the table"
                )
                problems.add(
                    f"pipelines.{pipeline.name}.sink.table",
                    f"{relation} of {owner}.",
                    "Use a separate directory for each.",
                )
        owners.append((place, pipeline.name))
    for pipeline in pipelines:
        for where, target in side_targets(pipeline):
            for there, owner in owners:
                if target.table is not None and (home / target.table).resolve() == there:
                    problems.add(
                        f"pipelines.{pipeline.name}.{where}.table",
                        f"is also the table of {owner}.",
                        "Use a separate directory.",
                    )
