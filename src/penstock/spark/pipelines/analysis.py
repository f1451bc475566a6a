"""Has Spark look at every query, column and function before anything starts. Never reads a record."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.spark.pipelines.batches import BatchWriter
from penstock.spark.pipelines.decode import ERROR, HEADERS_TYPE
from penstock.spark.pipelines.definition import Pipeline, Project
from penstock.spark.pipelines.outputs import last_changes, to_records, to_table_rows
from penstock.spark.pipelines.place import own_session
from penstock.spark.pipelines.problems import PipelineError, Problems, WrongDefinition
from penstock.spark.pipelines.steps import apply_steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    f"timestampType int, headers {HEADERS_TYPE}"
)


def analyse(spark: SparkSession, project: Project, pipelines: Sequence[Pipeline]) -> None:
    """Raises WrongDefinition with what is wrong in any of them."""
    from pyspark.errors import PySparkException

    problems = Problems()
    for pipeline in pipelines:
        path = f"pipelines.{pipeline.name}"
        try:
            _analyse(own_session(spark), project.home, pipeline)
        except WrongDefinition as error:
            problems.found.extend(error.problems)
        except PySparkException as error:
            problems.add(path, " ".join(str(error).split(";")[0].split())[:600])
        except PipelineError as error:
            problems.add(path, str(error))
    problems.raise_any()


def _analyse(spark: SparkSession, home: Path, pipeline: Pipeline) -> None:
    if pipeline.decode.schema == "infer":
        return
    writer = BatchWriter(pipeline, home, pipeline.name, {}, home)
    decoded = writer.decoded(spark.createDataFrame([], RECORDS))
    rows = apply_steps(decoded.where(f"{ERROR} is null"), pipeline.steps, home)
    _columns_of_sink(rows, pipeline).schema  # noqa: B018  asking for it is what has Spark look


def _columns_of_sink(rows: DataFrame, pipeline: Pipeline) -> DataFrame:
    sink = pipeline.sink
    if sink.topic is not None:
        return to_records(rows, sink)
    if sink.mode == "upsert":
        return last_changes(rows, sink)
    return to_table_rows(rows, sink, is_raw=pipeline.decode.format == "raw").select("*", *sink.partition_by)
