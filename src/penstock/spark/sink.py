"""Spark's end of the sink: Arrow batches of a task to topics, and the driver's word on whether they count.

What exactly-once stands on is in `decisions`. Here is who writes under which name: a streaming query under its id with
Spark's batch number, a job under its `txnAppId` with `txnVersion`, a nameless job under a name that nobody uses again.
Never starts a session.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from penstock.client.errors import Aborted, BadArgument, ClientError
from penstock.client.raw.cluster import Cluster
from penstock.client.raw.transactions import end, new_producer, standing, take
from penstock.core.records.batch_builder import ProducerIdentity
from penstock.spark.decisions import NEVER, Decisions, TaskWrites, last_batch, mark, task_name
from penstock.spark.reading import kept_cluster
from penstock.spark.sink_options import SinkOptions, check_columns, read_sink_options
from penstock.spark.writing import TaskWriter

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"

_names: dict[SinkOptions, str] = {}
"""The names under which queries with these options have committed in this process; their leftovers are swept."""


class Turn(NamedTuple):
    """What a task writes for: a name, the batch under that name (NEVER: it has none), and which task it is."""

    name: str
    batch: int
    task: int


@dataclass(frozen=True, slots=True)
class Report(WriterCommitMessage):
    """What a task tells the driver. Skipped: the batch counted already when the task came."""

    turn: Turn
    written: TaskWrites | None = None
    is_skipped: bool = False


class Sink:
    """What both kinds of writers share."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write_rows(self, turn: Turn, batches: Iterable[Any]) -> Report:
        """A task: its rows into its own transaction, which stays open; or at least once, if that was asked for."""
        cluster = kept_cluster(self._options.access)
        if turn.batch != NEVER:
            decided = last_batch(cluster, turn.name, self._options.transaction_ms_max)
            if decided >= turn.batch:
                _drain(batches)
                return Report(turn, is_skipped=True)
        rows = (batch for batch in batches if batch.num_rows)
        first = next(rows, None)
        if first is None:
            return Report(turn)
        if not self._options.is_exactly_once:
            producer_id, epoch = new_producer(cluster)
            identity = ProducerIdentity(producer_id, epoch, is_transactional=False)
            _write(TaskWriter(cluster, self._options.shape, identity), first, rows)
            return Report(turn)
        return Report(turn, self._write_open(cluster, turn, first, rows))

    def _write_open(self, cluster: Cluster, turn: Turn, first: Any, rows: Iterator[Any]) -> TaskWrites:
        hold = take(cluster, task_name(turn.name, turn.task), self._options.transaction_ms_max)
        identity = ProducerIdentity(hold.producer_id, hold.producer_epoch, is_transactional=True)
        try:
            spans = _write(TaskWriter(cluster, self._options.shape, identity, hold), first, rows)
            written = TaskWrites(turn.task, hold, spans)
            if turn.batch != NEVER:
                mark(cluster, turn.batch, written, hold)
        except BaseException:
            _abort_quietly(cluster, [TaskWrites(turn.task, hold, ())])
            raise
        return written

    def commit_all(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """The driver, when all tasks are done: what they wrote counts."""
        reports = [one for one in messages if isinstance(one, Report)]
        written = [one.written for one in reports if one.written is not None]
        if not written and not any(one.is_skipped for one in reports):
            return
        cluster = kept_cluster(self._options.access)
        turn = reports[0].turn
        if turn.batch == NEVER:
            _commit_nameless(cluster, written)
            return
        decisions = self._decisions(cluster, turn.name)
        decisions.settle(turn.batch, written)
        if _names.get(self._options) != turn.name:
            decisions.sweep(written)
            _names[self._options] = turn.name

    def abort_all(self, messages: Sequence[WriterCommitMessage | None], name: str | None) -> None:
        """The driver, when a task or the commit failed: nothing counts, unless it was decided before.

        Tasks that gave no report may have left a transaction open, or may be writing still: they are fenced.
        """
        reports = [one for one in messages if isinstance(one, Report)]
        written = [one.written for one in reports if one.written is not None]
        if not self._options.is_exactly_once or (not reports and name is None):
            return
        cluster = kept_cluster(self._options.access)
        turn = reports[0].turn if reports else Turn(name or "", NEVER, 0)
        if turn.batch == NEVER:
            _abort_quietly(cluster, written)
        else:
            self._decisions(cluster, turn.name).give_up(turn.batch, written)
        if len(reports) < len(messages):
            self._decisions(cluster, turn.name).sweep(written)

    def _decisions(self, cluster: Cluster, name: str) -> Decisions:
        return Decisions(cluster, name, self._options.transaction_ms_max)


class JobWriter(DataSourceArrowWriter, Sink):
    """`df.write.format("penstock")`."""

    def __init__(self, options: SinkOptions) -> None:
        Sink.__init__(self, options)
        name = uuid.uuid4().hex if options.app is None else options.app
        self._name = f"{options.prefix}-{name}"
        self._batch = NEVER if options.version is None else options.version

    def write(self, iterator: Iterator[Any]) -> Report:
        return self.write_rows(Turn(self._name, self._batch, _context().partitionId()), iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.commit_all(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.abort_all(messages, self._name)


class QueryWriter(DataSourceStreamArrowWriter, Sink):
    """`df.writeStream.format("penstock")`."""

    def __init__(self, options: SinkOptions) -> None:
        Sink.__init__(self, options)

    def write(self, iterator: Iterator[Any]) -> Report:
        context = _context()
        query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        if query is None or batch is None:
            raise BadArgument(
                f"this Spark does not tell tasks their query and batch ({_QUERY_ID}, {_BATCH_ID}); "
                "use delivery=at_least_once, or Spark 4.2 or newer"
            )
        number = int(batch) if self._options.is_exactly_once else NEVER
        return self.write_rows(
            Turn(f"{self._options.prefix}-{query}", number, context.partitionId()), iterator
        )

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.commit_all(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.abort_all(messages, _names.get(self._options))


def job_writer(given: Mapping[str, str], schema: Any, overwrite: bool) -> JobWriter:
    """The writer of a batch job, when its options and columns are in order."""
    if overwrite:
        raise BadArgument('a topic cannot be overwritten: write with mode("append")')
    options = read_sink_options(given)
    check_columns(schema, options)
    return JobWriter(options)


def query_writer(given: Mapping[str, str], schema: Any) -> QueryWriter:
    """The writer of a streaming query, when its options and columns are in order."""
    options = read_sink_options(given)
    if options.app is not None:
        raise BadArgument(
            "'txnAppId' and 'txnVersion' are for batch jobs (also inside foreachBatch); a streaming query is "
            "exactly-once by its checkpoint"
        )
    check_columns(schema, options)
    return QueryWriter(options)


def _drain(batches: Iterable[Any]) -> None:
    """Read rows that are not wanted. Spark ends a Python worker that leaves input behind and starts another one for the
    next task, which takes longer than reading the rows."""
    for _ in batches:
        continue


def _write(writer: TaskWriter, first: Any, rows: Iterator[Any]) -> Any:
    try:
        writer.write(first)
        for batch in rows:
            writer.write(batch)
        return writer.finish()
    finally:
        writer.close()


def _commit_nameless(cluster: Cluster, written: Sequence[TaskWrites]) -> None:
    """All, as long as all can be: nothing is ended before every transaction was seen to be open."""
    for one in written:
        found = standing(cluster, one.hold.transactional_id)
        if found is None or not found.is_open_for(one.hold):
            _abort_quietly(cluster, written)
            raise Aborted(
                f"the transaction of task {one.task} was aborted before all tasks were done: nothing was written. "
                "Make kafka.transaction.timeout.ms longer than the job takes."
            )
    for one in written:
        end(cluster, one.hold, commit=True)


def _abort_quietly(cluster: Cluster, written: Iterable[TaskWrites]) -> None:
    """Abort what can be; what cannot is aborted by the broker in time."""
    for one in written:
        try:
            end(cluster, one.hold, commit=False)
        except ClientError:
            continue


def _context() -> Any:
    context = TaskContext.get()
    assert context is not None, "rows are written by tasks"
    return context
