"""One start of one pipeline: topics, history, then its query. Never decides whether to start again."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING

from penstock.spark.pipelines.batches import BatchWriter
from penstock.spark.pipelines.definition import Pipeline, Project
from penstock.spark.pipelines.history import run_history
from penstock.spark.pipelines.preparation import prepare_topics
from penstock.spark.pipelines.session import own_session
from penstock.spark.pipelines.state import PipelineClaim
from penstock.spark.pipelines.steps import output_mode
from penstock.spark.pipelines.topics import source_options, topic_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery


class StopAtBoundary(Exception):
    """Raised at the start of a batch when the pipeline is to stop: everything before it is finished."""


@dataclass
class BatchGate:
    """What every batch passes first. Lives in the driver: over Spark Connect batches do not pass here."""

    writer: BatchWriter
    is_closing: threading.Event
    is_inside: bool = False

    def __call__(self, batch: DataFrame, batch_id: int) -> None:
        if self.is_closing.is_set():
            raise StopAtBoundary(f"stopped before batch {batch_id}")
        self.is_inside = True
        try:
            self.writer(batch, batch_id)
        finally:
            self.is_inside = False


@dataclass(frozen=True)
class Launched:
    """A query that was started, and the session that is its own."""

    query: StreamingQuery
    gate: BatchGate | None
    ends: ExitStack

    @property
    def is_between_batches(self) -> bool:
        if not self.query.isActive:
            return True
        if self.gate is not None and self.gate.is_inside:
            return False
        return not self.query.status["isDataAvailable"]


@dataclass(frozen=True)
class Launcher:
    """Starts pipelines of one project on one Spark. Called from threads, one for each pipeline."""

    spark: SparkSession
    project: Project
    closing: threading.Event
    is_once: bool
    turn: threading.Lock
    """One query starts at a time: each brings up Python workers, and many at once are too slow for Spark's patience."""

    def launch(self, pipeline: Pipeline, claim: PipelineClaim) -> Launched:
        """Blocks until the query runs. Raises whatever keeps it from that."""
        prepare_topics(self.project, pipeline)
        with ExitStack() as ends:
            session = ends.enter_context(own_session(self.spark))
            writer = BatchWriter(
                pipeline, self.project.home, claim.app, topic_options(self.project), claim.state.checkpoint
            )
            live_from = run_history(session, pipeline, self.project.home, claim.state, writer, self.closing)
            options = source_options(self.project, pipeline, live_from)
            gate = BatchGate(writer, self.closing) if self.project.spark.remote is None else None
            with self.turn:
                records = session.readStream.format("penstock").options(**options).load()
                rows = writer.stream(records) if pipeline.keeps_state else records
                query = self._query(rows, pipeline, claim, gate or writer)
            return Launched(query, gate, ends.pop_all())

    def _query(
        self, rows: DataFrame, pipeline: Pipeline, claim: PipelineClaim, write: BatchGate | BatchWriter
    ) -> StreamingQuery:
        query = rows.writeStream.queryName(pipeline.name).outputMode(output_mode(pipeline.steps))
        query = query.option("checkpointLocation", str(claim.state.checkpoint)).foreachBatch(write)
        if self.is_once:
            return query.trigger(availableNow=True).start()
        return query.trigger(processingTime=f"{pipeline.trigger} milliseconds").start()
