"""Runs pipelines in one Spark: starts, watches, restarts after a failure, stops between batches.

`supervision` decides about restarts; a pipeline that fails for good does not stop the others. Never prints: it returns
progress.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from penstock.spark.errors import PipelineError, RunFailed, WrongDefinition
from penstock.spark.pipelines.definition import Pipeline, Project
from penstock.spark.pipelines.failures import describe_failure
from penstock.spark.pipelines.launch import Launched, Launcher
from penstock.spark.pipelines.progress import Progress, read_progress, rows_in
from penstock.spark.pipelines.state import PipelineClaim, PipelineState
from penstock.spark.pipelines.supervision import ENDED, FAILED, Fault, RestartPolicy, Supervision, fault_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

log = logging.getLogger(__name__)

LOOK_S = 0.25
"""Interval between two looks at a running pipeline."""

STOP_S_MAX = 60.0
"""A batch that takes longer than this to finish is interrupted; the next start replays it."""

START_S_MAX = 10.0
"""How long a stop waits for a start in progress."""


_RUN_AGAIN = "Run it again; it continues where it stopped."
"""Remedy for failures that a restart within this process cannot fix."""


def wall_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass
class RunningPipeline:
    """One pipeline: its query while it runs, and its supervision."""

    pipeline: Pipeline
    state: PipelineState
    launch: Callable[[], Launched]
    supervision: Supervision
    clock_ms: Callable[[], int] = wall_ms
    rows_total: int = 0
    seen_until: str = ""
    last: Progress = field(default_factory=lambda: Progress("", "starting"))
    _starting: Future[Launched] | None = None
    _launched: Launched | None = None
    _report: Mapping[str, Any] | None = None
    _persisted: Progress | None = None

    def begin(self) -> None:
        """Start the query in a separate thread, so that a broker that does not answer blocks no other pipeline."""
        self._starting = Future()
        args = (self._starting, self.launch)
        threading.Thread(target=_settle, args=args, name=f"start-{self.pipeline.name}", daemon=True).start()

    def look(self) -> Progress:
        """The current progress; also restarts the pipeline when its backoff is over."""
        now_ms = self.clock_ms()
        if self.supervision.is_due(now_ms):
            self.supervision.restarting(now_ms)
            self.begin()
        if self._starting is not None and self._starting.done():
            self._take_start(self._starting, now_ms)
        if self._launched is not None:
            self._take_query(self._launched, now_ms)
        watched = self.supervision
        progress = read_progress(self.pipeline.name, self._report, self.rows_total, watched.state)
        self.last = replace(
            progress,
            error=watched.error,
            restarts=watched.restarts,
            since=iso(watched.since_ms),
            failed_at="" if watched.failed_ms is None else iso(watched.failed_ms),
        )
        return self.last

    def persist_status(self) -> None:
        """Persist the last progress for `penstock pipeline status`, if it has changed."""
        if self.last != self._persisted:
            self._persisted = self.last
            put_status(self.state, self.last)

    def stop(self) -> None:
        """Wait for the batch in progress, then stop the query."""
        starting, self._starting = self._starting, None
        if starting is not None and wait_until(starting.done, START_S_MAX) and not starting.exception():
            self._launched = starting.result()
        if self._launched is not None:
            self._end(self._launched)
        self.supervision.ended(self.clock_ms())
        self.look()
        self.persist_status()

    def _end(self, launched: Launched) -> None:
        try:
            wait_until(lambda: launched.is_between_batches, STOP_S_MAX)
            launched.query.stop()
        except Exception as failure:  # noqa: BLE001 - a dead JVM must not prevent stopping the others
            self._close()
            self._fail(failure, self.clock_ms())
        else:
            self._take_query(launched, self.clock_ms())

    def _take_start(self, starting: Future[Launched], now_ms: int) -> None:
        self._starting = None
        error = starting.exception()
        if error is None:
            self._launched = starting.result()
            self.supervision.started(now_ms)
        else:
            self._fail(error, now_ms)

    def _take_query(self, launched: Launched, now_ms: int) -> None:
        """Read the state and the new reports of the query."""
        query = launched.query
        try:
            # Read once, before the reports: a query that ends in between is seen as ended by the next look, with all
            # its reports. Several batches may have finished since the last look.
            is_active = query.isActive
            reports: list[Any] = list(query.recentProgress)
            error = None if is_active else query.exception()
        except Exception as failure:  # noqa: BLE001 - an unresponsive Spark fails only this pipeline
            self._close()
            self._fail(failure, now_ms)
            return
        for report in reports:
            if report["timestamp"] > self.seen_until:
                self.rows_total += rows_in(report)
                self.seen_until = report["timestamp"]
        self._report = reports[-1] if reports else self._report
        if is_active:
            return
        self._close()
        if error is None or "StopAtBoundary" in str(error):
            self.supervision.ended(now_ms)
        else:
            self._fail(error, now_ms)

    def _fail(self, error: BaseException, now_ms: int) -> None:
        text = f"{type(error).__module__}.{type(error).__qualname__}: {error}"
        fault, reason = fault_of(text), describe_failure(self.pipeline.name, text)
        if isinstance(error, PipelineError):
            fault, reason = Fault.FINAL, str(error)
        elif isinstance(error, ConnectionError) or type(error).__name__ == "Py4JNetworkError":
            fault, reason = Fault.FINAL, f"Spark's Java process has exited ({error}). {_RUN_AGAIN}"
        self.supervision.failed(now_ms, fault, _prefixed(self.pipeline.name, reason))

    def _close(self) -> None:
        launched, self._launched = self._launched, None
        if launched is not None:
            launched.ends.close()


def _settle(starting: Future[Launched], launch: Callable[[], Launched]) -> None:
    try:
        starting.set_result(launch())
    except BaseException as error:  # noqa: BLE001 - re-raised by the next look
        starting.set_exception(error)


def _prefixed(name: str, reason: str) -> str:
    return reason if reason.startswith(f"{name}: ") else f"{name}: {reason}"


def iso(ms: int) -> str:
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds")


def put_status(state: PipelineState, progress: Progress) -> None:
    """Persist the status. A failed write is logged: it must not stop a pipeline."""
    try:
        state.put_status(progress.plain())
    except OSError as error:
        log.warning("cannot write the status of pipeline %s: %s", progress.pipeline, error)


@contextmanager
def claimed(project: Project, pipelines: Sequence[Pipeline]) -> Iterator[dict[str, PipelineClaim]]:
    """Lock pipelines and claim their checkpoints, before anything slow. Raises AlreadyRunning, ForeignCheckpoint.

    A failure inside the block before a pipeline runs is persisted as its status.
    """
    with ExitStack() as locks:
        states = {one.name: PipelineState(project.state_of(one)) for one in pipelines}
        for state in states.values():
            locks.enter_context(state.locked())
        try:
            yield {
                one.name: PipelineClaim(states[one.name], states[one.name].claim(one)) for one in pipelines
            }
        except RunFailed:
            raise
        except PipelineError as error:
            for name, reason in _reasons(error, states).items():
                now = iso(wall_ms())
                failed = Progress(name, FAILED, error=_prefixed(name, reason), since=now, failed_at=now)
                put_status(states[name], failed)
            raise


def _reasons(error: PipelineError, names: Mapping[str, Any]) -> dict[str, str]:
    """The reason by pipeline for an error before the start: those its problems name, else all."""
    if not isinstance(error, WrongDefinition):
        return dict.fromkeys(names, str(error))
    by_name = {
        name: "; ".join(
            str(one)
            for one in error.problems
            if one.path == f"pipelines.{name}" or one.path.startswith(f"pipelines.{name}.")
        )
        for name in names
    }
    return {name: reason for name, reason in by_name.items() if reason} or dict.fromkeys(names, str(error))


@contextmanager
def started(
    spark: SparkSession,
    project: Project,
    pipelines: Sequence[Pipeline],
    *,
    is_once: bool,
    claims: Mapping[str, PipelineClaim] | None = None,
) -> Iterator[list[RunningPipeline]]:
    """Start every pipeline; stop them on exit, each between two batches."""
    closing = threading.Event()
    launcher = Launcher(spark, project, closing, is_once, threading.Lock())
    with ExitStack() as ends:
        if claims is None:
            claims = ends.enter_context(claimed(project, pipelines))
        running = [_supervised(launcher, one, claims[one.name]) for one in pipelines]
        try:
            for one in running:
                ends.callback(one.stop)
                one.begin()
            yield running
        finally:
            closing.set()


def _supervised(launcher: Launcher, pipeline: Pipeline, claim: PipelineClaim) -> RunningPipeline:
    policy = RestartPolicy(pipeline.max_restarts, launcher.is_once)
    return RunningPipeline(
        pipeline, claim.state, lambda: launcher.launch(pipeline, claim), Supervision(policy, wall_ms())
    )


def watch(
    running: Sequence[RunningPipeline],
    show: Callable[[list[Progress]], None],
    is_stopping: Callable[[], bool],
) -> None:
    """Watch until all have ended or a stop is requested. Raises RunFailed with the reasons of failed pipelines."""
    tick = threading.Event()
    while True:
        looks = [one.look() for one in running]
        show(looks)
        for one in running:
            one.persist_status()
        if is_stopping() or all(progress.state in ENDED for progress in looks):
            break
        tick.wait(LOOK_S)
    failures = [progress.error for progress in looks if progress.state == FAILED]
    if failures:
        raise RunFailed("\n".join(failures))


def wait_until(holds: Callable[[], bool], seconds_max: float, poll_s: float = 0.02) -> bool:
    """Poll until the condition holds; False if it does not within the time limit."""
    deadline_s = time.monotonic() + seconds_max
    tick = threading.Event()
    while not holds():
        if time.monotonic() > deadline_s:
            return False
        tick.wait(poll_s)
    return True
