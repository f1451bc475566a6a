"""Writes the rows of a table to a topic, with their order, keys, headers and timestamps. Never changes the table."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.spark.errors import ProjectProblem, WrongDefinition
from penstock.spark.lake.port import CommitMark, LakeTable, Spans
from penstock.spark.pipelines.decoder import ORIGIN, RAW
from penstock.spark.pipelines.definition import Pipeline, Project
from penstock.spark.pipelines.history import ReplayPlan, as_source, open_existing
from penstock.spark.pipelines.outputs import TopicOutput
from penstock.spark.pipelines.state import PipelineState
from penstock.spark.pipelines.topics import topic_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PIECE_ROWS = 100_000


@dataclass(frozen=True)
class Replay:
    """Options of a replay."""

    topic: str
    rows_per_s_max: int | None = None
    keep_partitions: bool = True
    begin_again: bool = False


def replay(
    spark: SparkSession,
    project: Project,
    pipeline: Pipeline,
    asked: Replay,
    show: Callable[[int, int, int], None],
) -> int:
    """Write the rows of a pipeline's table to a topic. `show` receives pieces done, pieces in total, and rows so far.

    An interrupted replay continues where it stopped; a finished one starts again only with `begin_again`.
    """
    table = _table(project, pipeline)
    state = PipelineState(project.state_of(pipeline))
    file = f"replay-{asked.topic}.json"
    plan = None if asked.begin_again else ReplayPlan.load(state, file)
    if plan is None:
        plan = ReplayPlan.make(
            state, file, table.spans(), min(PIECE_ROWS, asked.rows_per_s_max or PIECE_ROWS)
        )
        state.write(f"{file}.id", {"id": uuid.uuid4().hex[:12]})
    named = state.read(f"{file}.id")
    assert named is not None
    output = TopicOutput(asked.topic, {**topic_options(project), "includeHeaders": "true"})
    began_s, rows, total = time.monotonic(), 0, plan.count
    for number, piece in plan.left():
        records = _records(spark, table, piece, asked.keep_partitions)
        output.write(records, CommitMark(f"replay-{pipeline.name}:{named['id']}", number))
        plan.done(number)
        rows += sum(high - low for low, high in piece.values())
        show(number + 1, total, rows)
        if asked.rows_per_s_max:
            threading.Event().wait(max(0.0, began_s + rows / asked.rows_per_s_max - time.monotonic()))
    return rows


def _table(project: Project, pipeline: Pipeline) -> LakeTable:
    sink = pipeline.sink
    if sink.table is None or sink.mode == "upsert":
        what = "has no append-only table to replay."
        raise WrongDefinition(
            [
                ProjectProblem(
                    pipeline.name, what, "Replay a pipeline whose sink is a table with mode: append."
                )
            ]
        )
    return open_existing(project.place(sink.table), sink.format, needs_raw=False)


def _records(spark: SparkSession, table: LakeTable, piece: Spans, keep_partitions: bool) -> DataFrame:
    """Records in offset order. Without stored raw bytes, values are rebuilt from the columns as JSON."""
    if all(name in table.schema().names for name in RAW):
        records = as_source(spark, table, piece)
    else:
        records = _from_columns(spark, table, piece)
    partitions = max(1, len({partition for _, partition in piece}))
    ordered = records.repartition(partitions, "topic", "partition").sortWithinPartitions(
        "topic", "partition", "offset"
    )
    columns = [name for name in ("key", "value", "headers", "timestamp") if name in ordered.columns]
    return ordered.select(*columns, *(["partition"] if keep_partitions else []))


def _from_columns(spark: SparkSession, table: LakeTable, piece: Spans) -> DataFrame:
    from pyspark.sql import functions as F

    names = table.schema().names
    own = [name for name in names if not name.startswith("_")]
    rows = spark.createDataFrame(table.between(piece, [*own, *ORIGIN]))
    return rows.select(
        F.lit(None).cast("binary").alias("key"),
        F.to_json(F.struct(*own)).cast("binary").alias("value"),
        *[F.col(name).alias(name.removeprefix("_")) for name in ORIGIN],
    )
