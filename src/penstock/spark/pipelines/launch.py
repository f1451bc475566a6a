"""Starts one pipeline once: creates topics, replays history, starts the query. `supervision` decides about restarts."""

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
    """Raised at the start of a batch to stop the query: all earlier batches are complete."""


@dataclass
class BatchGate:
    """Wraps the batch writer to stop between batches. Works only in the driver, so not with Spark Connect."""

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
    """A started query and its own session."""

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
    """Starts the pipelines of one project in one Spark. Called from one thread per pipeline."""

    spark: SparkSession
    project: Project
    closing: threading.Event
    is_once: bool
    turn: threading.Lock
    """One query starts at a time: each starts Python workers, and many at once exceed Spark's start timeout."""

    def launch(self, pipeline: Pipeline, claim: PipelineClaim) -> Launched:
        """Block until the query runs. Raises whatever prevents it."""
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
