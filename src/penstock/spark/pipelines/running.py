"""Pipelines on one Spark: start, watch, stop at the end of a batch. Never prints: it hands out progress."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from penstock.spark.pipelines.batches import BatchWriter
from penstock.spark.pipelines.definition import Pipeline, Project
from penstock.spark.pipelines.history import run_history
from penstock.spark.pipelines.place import own_session
from penstock.spark.pipelines.problems import RunFailed
from penstock.spark.pipelines.progress import RUNNING, Progress, read_progress, rows_in
from penstock.spark.pipelines.state import PipelineState
from penstock.spark.pipelines.steps import output_mode
from penstock.spark.pipelines.topics import source_options, topic_options

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

LOOK_S = 0.25
"""How often a running pipeline is looked at."""

STOP_S_MAX = 60.0
"""A batch that takes longer than this to end is cut off; it is run again at the next start."""


class StopAtBoundary(Exception):
    """Raised at the start of a batch when the pipeline is to stop: everything before it is finished."""


@dataclass
class Gate:
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


@dataclass
class Running:
    """One pipeline with its query."""

    pipeline: Pipeline
    state: PipelineState
    query: StreamingQuery
    gate: Gate | None
    rows_total: int = 0
    seen_until: str = ""
    last: Progress = field(default_factory=lambda: Progress("", "starting"))

    def look(self) -> Progress:
        """How it is doing now. Several batches may have ended since the last look.

        Whether it runs is asked first and once: what ends in the middle of a look is seen as ended by the next one.
        """
        is_active = self.query.isActive
        reports: list[Any] = list(self.query.recentProgress)
        for report in reports:
            if report["timestamp"] > self.seen_until:
                self.rows_total += rows_in(report)
                self.seen_until = report["timestamp"]
        failure = None if is_active else self._failure()
        state = RUNNING if is_active else "failed" if failure else "stopped"
        told = read_progress(self.pipeline.name, reports[-1] if reports else None, self.rows_total, state)
        self.last = replace(told, error=failure or "")
        return self.last

    def note(self, progress: Progress) -> None:
        """Leave word for `penstock pipeline status`. Raises RunFailed where that cannot be written down."""
        try:
            self.state.put_status(progress.plain())
        except OSError as error:
            raise RunFailed(in_words(self.pipeline.name, str(error))) from error

    def _failure(self) -> str | None:
        """Why it ended, if that was by itself and badly."""
        error = self.query.exception()
        if error is None or "StopAtBoundary" in str(error):
            return None
        return in_words(self.pipeline.name, str(error))

    @property
    def is_between_batches(self) -> bool:
        if not self.query.isActive:
            return True
        if self.gate is not None and self.gate.is_inside:
            return False
        return not self.query.status["isDataAvailable"]


@contextmanager
def started(
    spark: SparkSession, project: Project, pipelines: Sequence[Pipeline], *, is_once: bool
) -> Iterator[list[Running]]:
    """Every pipeline, running. At the end they are stopped, each at the end of a batch."""
    closing = threading.Event()
    with ExitStack() as ends:
        running: list[Running] = []
        try:
            for pipeline in pipelines:
                state = PipelineState(project.state_of(pipeline))
                ends.enter_context(state.locked())
                running.append(_start(spark, project, pipeline, state, closing, is_once))
                ends.callback(_stop, running[-1])
            yield running
        finally:
            closing.set()


def _start(
    spark: SparkSession,
    project: Project,
    pipeline: Pipeline,
    state: PipelineState,
    closing: threading.Event,
    is_once: bool,
) -> Running:
    app = state.claim(pipeline)
    session = own_session(spark)
    options = topic_options(project)
    writer = BatchWriter(pipeline, project.home, app, options, state.checkpoint)
    live_from = run_history(session, pipeline, project.home, state, writer, closing)
    reader = session.readStream.format("penstock").options(**source_options(project, pipeline, live_from))
    records = reader.load()
    rows = writer.stream(records) if pipeline.keeps_state else records
    is_local = project.spark.remote is None
    gate = Gate(writer, closing) if is_local else None
    query = rows.writeStream.queryName(pipeline.name).outputMode(output_mode(pipeline.steps))
    query = query.option("checkpointLocation", str(state.checkpoint)).foreachBatch(gate or writer)
    query = (
        query.trigger(availableNow=True)
        if is_once
        else query.trigger(processingTime=f"{pipeline.trigger} milliseconds")
    )
    return Running(pipeline, state, query.start(), gate)


def _stop(one: Running) -> None:
    """Wait for the batch that is under way, then end the query."""
    from penstock.spark.pipelines.waiting import wait_until

    wait_until(lambda: one.is_between_batches, STOP_S_MAX)
    one.query.stop()
    one.note(one.look())


def watch(
    running: Sequence[Running], show: Callable[[list[Progress]], None], is_stopping: Callable[[], bool]
) -> None:
    """Look until all have ended or somebody wants to stop. Raises RunFailed with the words of those that failed."""
    tick = threading.Event()
    while True:
        looks = [one.look() for one in running]
        show(looks)
        failures = [progress.error for progress in looks if progress.error]
        if failures:
            raise RunFailed("\n".join(failures))
        for one, progress in zip(running, looks, strict=True):
            one.note(progress)
        if is_stopping() or not any(progress.state == RUNNING for progress in looks):
            return
        tick.wait(LOOK_S)


def in_words(name: str, error: str) -> str:
    """What Spark says, with what to do about it where that is known."""
    said = error.partition(_OF_THE_QUERY)[0].rpartition(_ENDED_BY)[2]
    lines = [line.strip() for line in said.splitlines() if line.strip()] or ["no words"]
    raised = [line for line in lines if _RAISED.match(line)]
    for sign, remedy in _REMEDIES.items():
        if telling := next((line for line in (*raised, *lines) if sign in line), None):
            return f"{name}: {_OUR_NAME.sub('', telling)[:500]} {remedy}"
    ours = [_OUR_NAME.sub("", line) for line in raised if _OUR_NAME.match(line)]
    cause = (ours or raised or lines[:1])[-1]
    return f"{name}: {cause[:800]}".replace(f"{name}: {name}: ", f"{name}: ")


_ENDED_BY = "terminated with exception: "
_OF_THE_QUERY = "=== Streaming Query ==="
"""Between these two Spark says why a query ended; then come its plan and its state, which is no cause of anything."""
_RAISED = re.compile(r"([a-z_]+(\.[A-Za-z_]+)+|[A-Z]\w*(Error|Exception)): .")
"""The last line of a traceback: the full name of an error, and what it says."""
_OUR_NAME = re.compile(r"penstock\.[A-Za-z_.]+: ")
_REMEDIES = {
    "No space left on device": "The disk is full: make space and run it again; it goes on where it stopped.",
    "Unreachable": "Nobody answers there: start the broker and run it again; it goes on where it stopped.",
    "failed to connect back": "This machine was too busy to start Python within Spark's ten seconds: let it do less at "
    "once and run it again; it goes on where it stopped.",
    "OutOfMemoryError": "Give Spark more memory (spark.conf: spark.driver.memory), or smaller batches.",
}
