"""Compacts the table of a pipeline: merges small files, deletes expired rows and old versions. Safe while it runs."""

from __future__ import annotations

import time

from penstock.spark.errors import ProjectProblem, WrongDefinition
from penstock.spark.lake.port import Compacted
from penstock.spark.pipelines.definition import Pipeline, Project
from penstock.spark.pipelines.history import open_existing


def compact_table(project: Project, pipeline: Pipeline, *, file_bytes: int, keep_ms: int) -> Compacted:
    """Compact the table of a pipeline, even while it runs. Needs no Spark."""
    sink = pipeline.sink
    if sink.table is None:
        problem = ProjectProblem(
            pipeline.name, "writes to a topic.", "Topics are compacted by the broker (cleanup.policy)."
        )
        raise WrongDefinition([problem])
    table = open_existing(project.place(sink.table), sink.format, needs_raw=False)
    expire_before_ms = None if sink.expire_after is None else int(time.time() * 1000) - sink.expire_after
    return table.compact(file_bytes, keep_ms, expire_before_ms)
