"""The sink's Spark API: tasks write Arrow batches to topics, the driver commits or aborts them.

`decisions` implements exactly-once. This module chooses the name a batch is committed under: a streaming query uses its
query id and Spark's batch number, a job its `txnAppId` and `txnVersion`, a job without either a random, one-time name.
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
from penstock.spark.decisions import NEVER, Decisions, TaskWrites, is_given_up, last_batch, mark, task_name
from penstock.spark.sink_options import SinkOptions, check_columns, read_sink_options
from penstock.spark.task_reader import cached_cluster
from penstock.spark.task_writer import TaskWriter

_QUERY_ID = "sql.streaming.queryId"
_BATCH_ID = "streaming.sql.batchId"

_names: dict[SinkOptions, str] = {}
"""Names under which queries with these options have committed in this process: their stale transactions are aborted."""


class TaskIdentity(NamedTuple):
    """What a task writes: the writer's name, its batch number (NEVER for one-time names), and the task number."""

    name: str
    batch: int
    task: int


@dataclass(frozen=True, slots=True)
class TaskReport(WriterCommitMessage):
    """The result a task sends to the driver. Skipped: the batch was already committed when the task started."""

    identity: TaskIdentity
    attempt: str
    written: TaskWrites | None = None
    is_skipped: bool = False


class Sink:
    """Shared by job and query writers."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._attempt = uuid.uuid4().hex
        """Tasks recognise by it that the job or the run of the query that they belong to was given up."""

    def write_rows(self, identity: TaskIdentity, batches: Iterable[Any]) -> TaskReport:
        """In a task: write the rows in a transaction that stays open, or without one for at-least-once delivery."""
        cluster = cached_cluster(self._options.access)
        # Spark replays a batch whose commit it has not recorded. If our decision for it is durable, writing the rows
        # again would duplicate them.
        if identity.batch != NEVER:
            decided = last_batch(cluster, identity.name, self._options.transaction_ms_max)
            if decided >= identity.batch:
                _drain(batches)
                return TaskReport(identity, self._attempt, is_skipped=True)
        rows = (batch for batch in batches if batch.num_rows)
        first = next(rows, None)
        if first is None:
            return TaskReport(identity, self._attempt)
        if not self._options.is_exactly_once:
            producer_id, epoch = new_producer(cluster)
            producer = ProducerIdentity(producer_id, epoch, is_transactional=False)
            _write(TaskWriter(cluster, self._options.terms, producer), first, rows)
            return TaskReport(identity, self._attempt)
        return TaskReport(identity, self._attempt, self._write_open(cluster, identity, first, rows))

    def _write_open(
        self, cluster: Cluster, identity: TaskIdentity, first: Any, rows: Iterator[Any]
    ) -> TaskWrites:
        hold = take(cluster, task_name(identity.name, identity.task), self._options.transaction_ms_max)
        # Spark aborts a job while its other tasks still run, and kills them soon after. One that opened a transaction
        # now would leave it open until it times out.
        if is_given_up(cluster, identity.name, self._attempt):
            raise Aborted(
                f"the job was aborted before task {identity.task} wrote its first row; the cause is in the error of "
                "the task that failed first"
            )
        producer = ProducerIdentity(hold.producer_id, hold.producer_epoch, is_transactional=True)
        try:
            spans = _write(TaskWriter(cluster, self._options.terms, producer, hold), first, rows)
            written = TaskWrites(identity.task, hold, spans)
            if identity.batch != NEVER:
                mark(cluster, identity.batch, written, hold)
        except BaseException:
            # An open transaction blocks read_committed readers of its partitions until it times out: abort it now.
            _abort_quietly(cluster, [TaskWrites(identity.task, hold, ())])
            raise
        return written

    def commit_all(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """On the driver, when all tasks have finished: commit what they wrote."""
        reports = [one for one in messages if isinstance(one, TaskReport)]
        written = [one.written for one in reports if one.written is not None]
        if not written and not any(one.is_skipped for one in reports):
            return
        cluster = cached_cluster(self._options.access)
        identity = reports[0].identity
        if identity.batch == NEVER:
            _commit_nameless(cluster, written)
            return
        decisions = self._decisions(cluster, identity.name)
        decisions.settle(identity.batch, written)
        # An earlier process may have used more tasks than this one. Their names are never taken again, so their open
        # transactions would block readers until they time out. Once per process and query is enough.
        if _names.get(self._options) != identity.name:
            decisions.sweep(written)
            _names[self._options] = identity.name

    def abort_all(self, messages: Sequence[WriterCommitMessage | None], name: str | None) -> None:
        """On the driver, when a task or the commit failed: abort the batch unless it is already decided.

        Tasks without a report may have left a transaction open, may still be writing, or may be about to start: they
        are stopped. `name` is for a batch without any report. A query's driver then does not know the attempt either: a
        task that starts after this call is fenced when the query is started again.
        """
        reports = [one for one in messages if isinstance(one, TaskReport)]
        written = [one.written for one in reports if one.written is not None]
        if not self._options.is_exactly_once or (not reports and name is None):
            return
        cluster = cached_cluster(self._options.access)
        identity = reports[0].identity if reports else TaskIdentity(name or "", NEVER, 0)
        if identity.batch == NEVER:
            _abort_quietly(cluster, written)
        else:
            self._decisions(cluster, identity.name).give_up(identity.batch, written)
        if len(reports) < len(messages):
            attempt = reports[0].attempt if reports else self._attempt
            self._decisions(cluster, identity.name).stop_attempt(attempt, written)

    def _decisions(self, cluster: Cluster, name: str) -> Decisions:
        return Decisions(cluster, name, self._options.transaction_ms_max)


class JobWriter(DataSourceArrowWriter, Sink):
    """`df.write.format("penstock")`."""

    def __init__(self, options: SinkOptions) -> None:
        Sink.__init__(self, options)
        name = uuid.uuid4().hex if options.app is None else options.app
        self._name = f"{options.prefix}-{name}"
        self._batch = NEVER if options.version is None else options.version

    def write(self, iterator: Iterator[Any]) -> TaskReport:
        return self.write_rows(TaskIdentity(self._name, self._batch, _context().partitionId()), iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        self.commit_all(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        self.abort_all(messages, self._name)


class QueryWriter(DataSourceStreamArrowWriter, Sink):
    """`df.writeStream.format("penstock")`."""

    def __init__(self, options: SinkOptions) -> None:
        Sink.__init__(self, options)

    def write(self, iterator: Iterator[Any]) -> TaskReport:
        context = _context()
        query, batch = context.getLocalProperty(_QUERY_ID), context.getLocalProperty(_BATCH_ID)
        if query is None or batch is None:
            raise BadArgument(
                f"this Spark version does not pass query and batch ids to tasks ({_QUERY_ID}, {_BATCH_ID}); "
                "use delivery=at_least_once, or Spark 4.2 or newer"
            )
        number = int(batch) if self._options.is_exactly_once else NEVER
        return self.write_rows(
            TaskIdentity(f"{self._options.prefix}-{query}", number, context.partitionId()), iterator
        )

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.commit_all(messages)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        self.abort_all(messages, _names.get(self._options))


def job_writer(given: Mapping[str, str], schema: Any, overwrite: bool) -> JobWriter:
    """The writer of a batch job. Raises BadArgument for invalid options or columns."""
    if overwrite:
        raise BadArgument('a topic cannot be overwritten: write with mode("append")')
    options = read_sink_options(given)
    check_columns(schema, options)
    return JobWriter(options)


def query_writer(given: Mapping[str, str], schema: Any) -> QueryWriter:
    """The writer of a streaming query. Raises BadArgument for invalid options or columns."""
    options = read_sink_options(given)
    if options.app is not None:
        raise BadArgument(
            "'txnAppId' and 'txnVersion' are for batch jobs (including inside foreachBatch); a streaming query is "
            "exactly-once through its checkpoint"
        )
    check_columns(schema, options)
    return QueryWriter(options)


def _drain(batches: Iterable[Any]) -> None:
    """Consume rows without using them. Spark kills a Python worker that leaves input unread and starts a new one for
    the next task, which takes longer than reading the rows."""
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
    """Commit every transaction, or none: check that all are open before committing the first."""
    for one in written:
        found = standing(cluster, one.hold.transactional_id)
        if found is None or not found.is_open_for(one.hold):
            _abort_quietly(cluster, written)
            raise Aborted(
                f"the transaction of task {one.task} was aborted before all tasks had finished: nothing was written. "
                "Set kafka.transaction.timeout.ms longer than the job takes."
            )
    for one in written:
        end(cluster, one.hold, commit=True)


def _abort_quietly(cluster: Cluster, written: Iterable[TaskWrites]) -> None:
    """Abort and ignore failures: the broker aborts the rest when they time out."""
    for one in written:
        try:
            end(cluster, one.hold, commit=False)
        except ClientError:
            continue


def _context() -> Any:
    context = TaskContext.get()
    assert context is not None, "rows are written by tasks"
    return context
