"""Exactly-once for batches written by many tasks: one fenced, durable decision per batch. Never touches rows.

A writer has a name: that of its query or job. Every task writes its rows in its own transaction, under the
transactional id `<name>/task-<number>`, together with a mark: the batch number, committed as an offset of the group of
the same name. It leaves the transaction open. The driver then decides, in a transaction under `<name>`: it commits the
batch number as an offset of the group `<name>`, with the list of what each task wrote as metadata. Only then are the
task transactions committed. So after a crash between any two calls:
* without a decision the batch does not count: it is written again, and open transactions are aborted;
* with a decision the batch counts: it is not written again, and the next run commits the transactions still open.
A transaction that was aborted despite the decision (it timed out, or a second driver took its name) still has its
records in the log, but not its mark, which distinguishes it from a committed one. Its record batches are read back and
written once more, in one transaction with the mark.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Sequence
from itertools import count, islice
from typing import NamedTuple

from penstock.client.errors import Aborted, Fenced, OffsetOutOfRange, Pending, Refused
from penstock.client.raw.batches import produce, read_raw
from penstock.client.raw.cluster import Cluster, TopicPartition
from penstock.client.raw.committed_offsets import CommittedOffset, committed
from penstock.client.raw.transactions import (
    TransactionHold,
    add_offsets,
    add_partitions,
    end,
    open_ids,
    standing,
    take,
)
from penstock.core.records.batch import BatchHeader
from penstock.core.records.batch_builder import ProducerIdentity, resealed

NEVER = -1
"""No batch yet."""

METADATA_BYTES_MAX = 4_000
"""Limit for the metadata of an offset; brokers accept 4096 bytes by default."""

DECIDING_S_MAX = 2.0
"""How long a starting task waits for a decision in progress."""

_PAUSE_S = 0.02
_SEQUENCES = 1 << 31


class WrittenSpan(NamedTuple):
    """The offsets of one transaction's records in one partition; records of others may lie in between."""

    topic: str
    partition: int
    first: int
    last: int
    records: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class TaskWrites(NamedTuple):
    """What one task wrote, and the transaction it wrote in."""

    task: int
    hold: TransactionHold
    spans: tuple[WrittenSpan, ...]

    @property
    def anchor(self) -> TopicPartition:
        """The partition the mark is committed for. Partition 0 exists in every topic."""
        return TopicPartition(min(one.topic for one in self.spans), 0)


class BatchDecision(NamedTuple):
    """A decided batch, and what each task wrote."""

    batch: int
    written: tuple[TaskWrites, ...]


def task_name(name: str, task: int) -> str:
    """The transactional id and the group id of one task."""
    return f"{name}/task-{task}"


def _attempt_name(name: str, attempt: str) -> str:
    return f"{name}/given-up-{attempt}"


def mark(cluster: Cluster, batch: int, one: TaskWrites, by: TransactionHold) -> None:
    """Record in the transaction of `by` that this task's part of the batch is written."""
    offsets = {one.anchor: CommittedOffset(batch, _signature(one.hold))}
    add_offsets(cluster, by, one.hold.transactional_id, offsets)


def last_batch(cluster: Cluster, name: str, timeout_ms: int) -> int:
    """The newest decided batch, or NEVER.

    Waits briefly for a decision in progress: a live driver decides within moments, and none of its own tasks run
    meanwhile. A driver that died while deciding is fenced, which aborts its undecided transaction.
    """
    deadline_s = time.monotonic() + DECIDING_S_MAX
    while time.monotonic() < deadline_s:
        try:
            return _newest(cluster, name, waits=False).offset
        except Pending:
            time.sleep(_PAUSE_S)
    take(cluster, name, timeout_ms)
    return _newest(cluster, name).offset


def is_given_up(cluster: Cluster, name: str, attempt: str) -> bool:
    """Whether the driver has given up this attempt. A task asks after it has taken its name and before it writes: it
    is then either refused here or fenced by the sweep that follows the mark."""
    return standing(cluster, _attempt_name(name, attempt)) is not None


class Decisions:
    """The decisions of one writer. `settle` and `give_up` fence every other driver of the same name."""

    def __init__(self, cluster: Cluster, name: str, timeout_ms: int) -> None:
        self._cluster = cluster
        self._name = name
        self._timeout_ms = timeout_ms

    def settle(self, batch: int, written: Sequence[TaskWrites]) -> None:
        """Decide the batch exactly once, or finish an earlier decision about it."""
        # Take before reading: taking the name fences any other driver and aborts its undecided transaction. What is
        # read after that is final, so two drivers cannot both find the batch undecided.
        by = self._take()
        made = self._read()
        if made.batch >= batch:
            # A replay of a batch that already counts: what this attempt wrote is a duplicate. Transactions that the
            # decision lists must not be aborted, they are the batch.
            self._abort(one for one in written if one not in made.written)
            if made.batch == batch:
                self._finish(made)
        elif written:
            made = BatchDecision(batch, tuple(sorted(written)))
            self._decide(by, made)
            # From here on the batch counts, even if this process dies: `_finish` can be repeated by the next run.
            self._finish(made)

    def give_up(self, batch: int, written: Sequence[TaskWrites]) -> None:
        """Abort the writes of a batch, unless they are decided: then they count, and the next run finishes them."""
        self._take()
        made = self._read()
        counts = made.written if made.batch >= batch else ()
        self._abort(one for one in written if one not in counts)

    def stop_attempt(self, attempt: str, written: Sequence[TaskWrites]) -> None:
        """Fence the tasks of an attempt that wrote nothing so far, also those that have not started yet."""
        # A transactional id that exists is a mark that needs no topic and that the broker forgets after a while.
        take(self._cluster, _attempt_name(self._name, attempt), self._timeout_ms)
        self.sweep(written)

    def sweep(self, written: Sequence[TaskWrites]) -> None:
        """Fence the tasks that are not in `written` or in the last decision, and abort their transactions."""
        known = {one.hold.transactional_id for one in (*written, *self._read().written)}
        for transactional_id in open_ids(self._cluster, task_name(self._name, 0)[:-1], with_taken=True):
            if transactional_id not in known:
                take(self._cluster, transactional_id, self._timeout_ms)

    # -- decide

    def _take(self) -> TransactionHold:
        return take(self._cluster, self._name, self._timeout_ms)

    def _decide(self, by: TransactionHold, decision: BatchDecision) -> None:
        """One transaction: the decision, and copies of the writes that were lost before it."""
        # A task transaction may have timed out since its task reported. Deciding without it would commit a batch with
        # missing records, so they are copied in the same transaction: decision and copies become visible together.
        lost = [one for one in decision.written if not self._is_open(one.hold)]
        anchor = min(one.anchor for one in decision.written)
        for group, piece in zip(_groups(self._name), _pieces(decision), strict=False):
            add_offsets(self._cluster, by, group, {anchor: CommittedOffset(decision.batch, piece)})
        self._write_again(by, decision.batch, lost)
        end(self._cluster, by, commit=True)

    def _finish(self, decision: BatchDecision) -> None:
        """Commit the task transactions of a decided batch. Safe to repeat, also by another process."""
        lost = [one for one in decision.written if not self._commit(one)]
        if not lost:
            return
        # A commit also fails if an earlier run has finished this task and its name was taken since. Only the mark tells
        # the two apart. Take the name first, so that no other driver copies the same records between check and copy.
        by = self._take()
        lost = [one for one in lost if not self._is_marked(decision.batch, one)]
        if lost:
            self._write_again(by, decision.batch, lost)
            end(self._cluster, by, commit=True)

    def _commit(self, one: TaskWrites) -> bool:
        try:
            end(self._cluster, one.hold, commit=True)
        except (Fenced, Aborted):
            return False
        return True

    def _abort(self, ones: Iterable[TaskWrites]) -> None:
        for one in ones:
            try:
                end(self._cluster, one.hold, commit=False)
            except (Fenced, Aborted):
                continue

    def _is_open(self, hold: TransactionHold) -> bool:
        found = standing(self._cluster, hold.transactional_id)
        return found is not None and found.is_open_for(hold)

    def _is_marked(self, batch: int, one: TaskWrites) -> bool:
        found = _newest(self._cluster, one.hold.transactional_id)
        # A mark of a later batch is enough: a batch starts only after the one before it was committed.
        # For this batch, producer id and epoch must match: another attempt of the same task leaves a different mark.
        return found.offset > batch or found == CommittedOffset(batch, _signature(one.hold))

    # -- copies of lost writes

    def _write_again(self, by: TransactionHold, batch: int, lost: Sequence[TaskWrites]) -> None:
        """Copy the record batches of these tasks into the transaction of `by`, each with its mark."""
        if not lost:
            return
        add_partitions(self._cluster, by, sorted({span.place for one in lost for span in one.spans}))
        sequences: dict[TopicPartition, int] = {}
        for one in lost:
            for span in one.spans:
                sequence = sequences.get(span.place, 0)
                sequences[span.place] = self._copy(by, one.hold, span, sequence)
            mark(self._cluster, batch, one, by)

    def _copy(self, by: TransactionHold, source: TransactionHold, span: WrittenSpan, sequence: int) -> int:
        identity = ProducerIdentity(by.producer_id, by.producer_epoch, is_transactional=True)
        found = 0
        for header, batch in self._batches(source, span):
            produce(self._cluster, {span.place: resealed(batch, header, identity, sequence)}, by)
            sequence = (sequence + header.count) % _SEQUENCES
            found += header.count
        if found != span.records:
            raise Refused(
                f"{span.records - found} of {span.records} records of {source.transactional_id} are no longer "
                f"in {span.topic} partition {span.partition}: retention or compaction deleted them before the batch "
                "was complete. Write the batch again under another name, and increase the topic's retention."
            )
        return sequence

    def _batches(
        self, source: TransactionHold, span: WrittenSpan
    ) -> Iterator[tuple[BatchHeader, memoryview]]:
        try:
            for header, batch in read_raw(self._cluster, span.place, span.first, span.last):
                by = (header.producer_id, header.producer_epoch)
                if by == (source.producer_id, source.producer_epoch) and not header.is_control:
                    yield header, batch
        except OffsetOutOfRange:
            return

    # -- read decisions

    def _read(self) -> BatchDecision:
        newest = _newest(self._cluster, self._name)
        if newest.offset == NEVER:
            return BatchDecision(NEVER, ())
        return BatchDecision(newest.offset, _read_written(self._cluster, self._name, newest))


def _newest(cluster: Cluster, group: str, *, waits: bool = True) -> CommittedOffset:
    return max(committed(cluster, group, waits=waits).values(), default=CommittedOffset(NEVER, ""))


def _signature(hold: TransactionHold) -> str:
    return f"{hold.producer_id}:{hold.producer_epoch}"


# -- a decision as offset metadata, split into pieces within the size limit


def _groups(name: str) -> Iterator[str]:
    yield name
    for number in count(1):
        yield f"{name}/more-{number}"


def _pieces(decision: BatchDecision) -> list[str]:
    """`<number of pieces> <JSON>`; the JSON continues in the following pieces."""
    written = [
        (one.task, one.hold.producer_id, one.hold.producer_epoch, one.spans) for one in decision.written
    ]
    text = json.dumps(written, separators=(",", ":"))
    room = METADATA_BYTES_MAX - len("1000 ")
    cut = [text[at : at + room] for at in range(0, len(text), room)]
    return [f"{len(cut)} {piece}" for piece in cut]


def _read_written(cluster: Cluster, name: str, newest: CommittedOffset) -> tuple[TaskWrites, ...]:
    pieces, _, text = newest.metadata.partition(" ")
    for group in islice(_groups(name), 1, int(pieces)):
        text += _newest(cluster, group).metadata.partition(" ")[2]
    return tuple(
        TaskWrites(
            task,
            TransactionHold(task_name(name, task), producer_id, epoch),
            tuple(WrittenSpan(*span) for span in spans),
        )
        for task, producer_id, epoch, spans in json.loads(text)
    )
