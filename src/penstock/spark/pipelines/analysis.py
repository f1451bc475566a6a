"""Lets Spark analyse every schema, rule, step and column before a run. Never reads a record.

Each part of a definition is analysed separately, so that an error names the key that causes it and does not hide the
next one. Only parts that depend on an invalid one are skipped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.spark.errors import PipelineError, ProjectProblem, WrongDefinition
from penstock.spark.lake.evolution import plain_schema, refuse_changed
from penstock.spark.lake.tables import open_table
from penstock.spark.pipelines.decoder import DATE, HEADERS_TYPE, ORIGIN, RAW, decode
from penstock.spark.pipelines.definition import Pipeline, Project, Step
from penstock.spark.pipelines.keys import with_key_columns
from penstock.spark.pipelines.outputs import last_changes, to_records, to_table_rows
from penstock.spark.pipelines.problems import Problems, suggestion
from penstock.spark.pipelines.session import own_session
from penstock.spark.pipelines.steps import apply_steps

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

RECORDS = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    f"timestampType int, headers {HEADERS_TYPE}"
)
MESSAGE_CHARS_MAX = 600


def analyse(spark: SparkSession, project: Project, pipelines: Sequence[Pipeline]) -> None:
    """Raises WrongDefinition with every error in any of the pipelines."""
    found = analysed(spark, project, pipelines)
    if found:
        raise project.locations.located(found)


def analysed(spark: SparkSession, project: Project, pipelines: Sequence[Pipeline]) -> list[ProjectProblem]:
    """Every error that Spark finds."""
    problems = Problems()
    for pipeline in pipelines:
        if pipeline.decode.schema != "infer":
            with own_session(spark) as session:
                _PipelineAnalysis(session, project.home, pipeline, problems).run()
    return problems.found


class _PipelineAnalysis:
    """Analyses one pipeline over an empty batch."""

    def __init__(self, spark: SparkSession, home: Path, pipeline: Pipeline, problems: Problems) -> None:
        self._spark = spark
        self._home = home
        self._pipeline = pipeline
        self._problems = problems
        self._path = f"pipelines.{pipeline.name}"

    def run(self) -> None:
        rows = self._decoded()
        for index, step in enumerate(self._pipeline.steps):
            if rows is not None:
                rows = self._after(rows, step, f"steps[{index}].{_kind(step)}")
        if rows is not None:
            self._check_sink(rows)

    def _after(self, rows: DataFrame, step: Step, where: str) -> DataFrame | None:
        """The rows after a step; None if the step is invalid."""
        found: list[DataFrame] = []
        with self._reporting(where):
            made = apply_steps(rows, [step], self._home)
            made.schema  # noqa: B018  reading the schema triggers the analysis
            found.append(made)
        return found[0] if found else None

    def _decoded(self) -> DataFrame | None:
        """The decoded columns, without rules; each rule is analysed separately."""
        from pyspark.sql import functions as F

        how, sink = self._pipeline.decode, self._pipeline.sink
        rows = None
        with self._reporting(f"decode.{'schema_file' if how.format == 'avro' else 'schema'}"):
            records = self._spark.createDataFrame([], RECORDS)
            plain = replace(how, required=(), expect={})
            decoded = decode(records, plain, self._home, sink.mode == "upsert", None)
            if sink.mode == "upsert":
                decoded = with_key_columns(decoded, sink.key)
            decoded.schema  # noqa: B018
            rows = decoded
        if rows is not None:
            self._check_columns(how.required, rows, "decode.required")
            for name, rule in how.expect.items():
                with self._reporting(f"decode.expect.{name}"):
                    rows.select(F.expr(rule).try_cast("boolean")).schema  # noqa: B018
        return rows

    def _check_columns(self, names: Sequence[str], rows: DataFrame, where: str) -> None:
        """Check that each column exists."""
        for name in names:
            with self._reporting(where):
                rows.select(f"`{name}`").schema  # noqa: B018

    def _check_sink(self, rows: DataFrame) -> None:
        from pyspark.sql import functions as F

        sink = self._pipeline.sink
        if self._names_missing(sink.key, rows, "sink.key", ()):
            return
        if sink.topic is not None:
            with self._reporting("sink"):
                to_records(rows, sink).schema  # noqa: B018
            return
        if self._names_missing(sink.partition_by, rows, "sink.partition_by", (DATE,)):
            return
        if sink.delete_when:
            with self._reporting("sink.delete_when"):
                rows.select(F.expr(sink.delete_when).try_cast("boolean")).schema  # noqa: B018
        with self._reporting("sink.table"):
            is_raw = self._pipeline.decode.format == "raw"
            made = (
                last_changes(rows, sink)
                if sink.mode == "upsert"
                else to_table_rows(rows, sink, is_raw=is_raw)
            )
            self._compare(made)

    def _names_missing(
        self, names: Sequence[str], rows: DataFrame, where: str, more: tuple[str, ...]
    ) -> bool:
        known = [*rows.columns, *more]
        missing = [name for name in names if name not in known]
        own = [name for name in known if name not in (*ORIGIN, *RAW, "_error")]
        for name in missing:
            path = f"{self._path}.{where}"
            self._problems.add(path, f"there is no column {name!r}.", suggestion(name, own))
        return bool(missing)

    def _compare(self, made: DataFrame) -> None:
        """Compare the rows with an existing table. Raises SchemaMismatch."""
        from pyspark.sql.pandas.types import from_arrow_schema

        sink = self._pipeline.sink
        assert sink.table is not None
        place = (self._home / sink.table).resolve()
        table = open_table(place, sink.format)
        coming = {field.name: field.dataType.simpleString() for field in made.schema}
        if not table.exists():
            return
        there = {
            field.name: field.dataType.simpleString()
            for field in from_arrow_schema(plain_schema(table.schema()))
        }
        refuse_changed(place, {name: (there[name], coming[name]) for name in coming if name in there})

    @contextmanager
    def _reporting(self, where: str) -> Iterator[None]:
        """Report errors raised in the block under this path."""
        from pyspark.errors import PySparkException

        path = f"{self._path}.{where}"
        try:
            yield
        except WrongDefinition as error:
            for one in error.problems:
                self._problems.add(path, one.what, one.remedy)
        except PySparkException as error:
            self._problems.add(path, spark_message(str(error)))
        except PipelineError as error:
            self._problems.add(path, str(error))
        except Exception as error:
            if not where.endswith(".python"):
                raise
            self._problems.add(path, f"the function raised {type(error).__name__}: {error}.")


def _kind(step: Step) -> str:
    return next(name for name in ("sql", "python", "dedup", "window", "stateful") if getattr(step, name))


_STATE = re.compile(r"\s*SQLSTATE: \w{5}\b")


def spark_message(text: str) -> str:
    """Spark's message without query plan, repeated query and JVM stack trace."""
    for sign in ("JVM stacktrace:", "\n== ", ";\n'", ";\n+-"):
        text = text.partition(sign)[0]
    return " ".join(_STATE.sub("", text).split()).rstrip(";")[:MESSAGE_CHARS_MAX]
