"""Sends dead letters back to their topics, each once. Never deletes one: the position is persisted."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from penstock.spark.errors import ProjectProblem, WrongDefinition
from penstock.spark.lake.port import CommitMark, Spans
from penstock.spark.pipelines import dead_letters
from penstock.spark.pipelines.conflicts import dead_target
from penstock.spark.pipelines.definition import Pipeline, Project
from penstock.spark.pipelines.history import as_source, open_existing
from penstock.spark.pipelines.state import PipelineState
from penstock.spark.pipelines.topics import topic_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILE = "redrive.json"


@dataclass(frozen=True)
class Redriven:
    """Number of dead letters sent, in total and by reason."""

    rows: int
    by_reason: dict[str, int]


def redrive_letters(spark: SparkSession, project: Project, pipeline: Pipeline, *, is_dry: bool) -> Redriven:
    """Send dead letters that were not sent before. A record that fails again becomes a new dead letter."""
    state = PipelineState(project.state_of(pipeline))
    saved = state.read(_FILE) or {"id": uuid.uuid4().hex[:12], "number": 0, "from": [], "to": None}
    letters = _Letters(spark, project, pipeline)
    begin = _spans(saved["from"])
    # The end is persisted before anything is sent: after a crash the same span is sent under the same mark, and the
    # sink skips it if it was committed.
    if saved["to"] is None:
        end = letters.ends(begin)
        if not is_dry:
            saved["to"] = [[*place, *span] for place, span in end.items()]
            state.write(_FILE, saved)
    else:
        end = _spans(saved["to"])
    if not end:
        return Redriven(0, {})
    records = letters.between(end)
    reasons = {str(row["reason"]): int(row["count"]) for row in records.groupBy("reason").count().collect()}
    if not is_dry:
        mark = CommitMark(f"redrive-{pipeline.name}:{saved['id']}", saved["number"])
        _send(records, topic_options(project), mark)
        done = {**begin, **{place: (low, high) for place, (low, high) in end.items()}}
        flat = [[*place, *span] for place, span in done.items()]
        state.write(_FILE, {**saved, "number": saved["number"] + 1, "from": flat, "to": None})
    return Redriven(sum(reasons.values()), dict(sorted(reasons.items())))


def _send(records: DataFrame, options: dict[str, str], mark: CommitMark) -> None:
    """Each record goes to its original topic; the key chooses the partition, as for the first write."""
    ready = records.select("topic", "key", "value", "headers")
    writer = ready.write.format("penstock").options(**options).option("includeHeaders", "true")
    writer.option("txnAppId", mark.app).option("txnVersion", str(mark.batch)).mode("append").save()


def _spans(flat: list[list[Any]]) -> Spans:
    return {(topic, partition): (low, high) for topic, partition, low, high in flat}


class _Letters:
    """The dead letters of a pipeline, in a topic or in a table."""

    def __init__(self, spark: SparkSession, project: Project, pipeline: Pipeline) -> None:
        self._spark = spark
        self._project = project
        target = dead_target(pipeline)
        if target is None:
            problem = ProjectProblem(
                pipeline.name, "has no dead letters.", "Set decode.bad_rows: dead_letter."
            )
            raise WrongDefinition([problem])
        self._target = target

    def ends(self, begin: Spans) -> Spans:
        """Spans of the dead letters that were not sent yet."""
        found = self._table().spans() if self._target.table else self._topic_spans()
        left = {
            place: (begin[place][1] if place in begin else low, high) for place, (low, high) in found.items()
        }
        return {place: span for place, span in left.items() if span[0] < span[1]}

    def between(self, spans: Spans) -> DataFrame:
        """reason, topic, key, value, headers."""
        from pyspark.sql import functions as F

        if self._target.table is not None:
            rows = as_source(self._spark, self._table(), spans)
            return rows.withColumn("reason", F.lit("in the table"))
        letters = dead_letters.without_our_headers(self._read(spans))
        return letters.withColumnRenamed("_topic", "topic")

    def _table(self) -> Any:
        assert self._target.table is not None
        return open_existing(self._project.place(self._target.table), self._target.format, needs_raw=True)

    def _topic_spans(self) -> Spans:
        from pyspark.sql import functions as F

        grouped = self._read(None).groupBy("topic", "partition").agg(F.min("offset"), F.max("offset") + 1)
        return {(row[0], row[1]): (row[2], row[3]) for row in grouped.collect()}

    def _read(self, spans: Spans | None) -> DataFrame:
        assert self._target.topic is not None
        reader = self._spark.read.format("penstock").options(**topic_options(self._project))
        reader = reader.option("subscribe", self._target.topic).option("includeHeaders", "true")
        if spans is None:
            return reader.load()
        from pyspark.sql import functions as F

        wanted = [
            (F.col("partition") == partition) & (F.col("offset") >= low) & (F.col("offset") < high)
            for (_, partition), (low, high) in spans.items()
        ]
        chosen = wanted[0]
        for more in wanted[1:]:
            chosen = chosen | more
        return reader.load().where(chosen)
