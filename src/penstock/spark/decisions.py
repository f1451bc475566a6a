"""Exactly once for what many tasks write: one fenced, durable decision for each batch. Never touches rows.

A writer has a name: that of its query or job. Every task writes its rows in a transaction of its own, under
`<name>/task-<number>`, together with a mark: batch as offset of the group of that name. It leaves the transaction open.
The driver then decides, in a transaction under `<name>`: batch as offset of the group `<name>`, and beside it what was
written by whom. Only then are the transactions of the tasks committed. So after a crash between any two calls,
* without a decision nothing of the batch counts: it is written again, and what was left open is aborted;
* with one the batch counts: it is not written again, and whoever comes next commits what is still open.
A transaction that was aborted in spite of the decision (it took too long, or a twin took its name) is still in the
log. Its mark is not, which tells it from a committed one: its batches are read back as they are and written once more,
in one transaction with the mark.
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
"""The batch before the first."""

METADATA_BYTES_MAX = 4_000
"""What goes beside an offset; brokers take 4096 bytes unless told otherwise."""

DECIDING_S_MAX = 2.0
"""How long a task waits for a decision that is under way when it starts."""

_PAUSE_S = 0.02
_SEQUENCES = 1 << 31


class WrittenSpan(NamedTuple):
    """Where records of one transaction lie in one partition; others may lie between them."""

    topic: str
    partition: int
    first: int
    last: int
    records: int

    @property
    def place(self) -> TopicPartition:
        return TopicPartition(self.topic, self.partition)


class TaskWrites(NamedTuple):
    """What one task wrote, and in whose name."""

    task: int
    hold: TransactionHold
    spans: tuple[WrittenSpan, ...]

    @property
    def anchor(self) -> TopicPartition:
        """The partition under which the mark stands: one that is there for certain."""
        return TopicPartition(min(one.topic for one in self.spans), 0)


class BatchDecision(NamedTuple):
    """A batch that counts, and who wrote it."""

    batch: int
    written: tuple[TaskWrites, ...]


def task_name(name: str, task: int) -> str:
    """The transactional id and the group of one task."""
    return f"{name}/task-{task}"


def mark(cluster: Cluster, batch: int, one: TaskWrites, by: TransactionHold) -> None:
    """Note in the transaction of `by` that this task's part of the batch is written."""
    offsets = {one.anchor: CommittedOffset(batch, _signature(one.hold))}
    add_offsets(cluster, by, one.hold.transactional_id, offsets)


def last_batch(cluster: Cluster, name: str, timeout_ms: int) -> int:
    """The newest batch that is decided, or NEVER.

    A decision that is under way is waited for, but not for long: a driver that is alive decides within moments, and no
    task of its own runs meanwhile. One that died in the middle is fenced, and with it goes what it had not decided.
    """
    deadline_s = time.monotonic() + DECIDING_S_MAX
    while time.monotonic() < deadline_s:
        try:
            return _newest(cluster, name, waits=False).offset
        except Pending:
            time.sleep(_PAUSE_S)
    take(cluster, name, timeout_ms)
    return _newest(cluster, name).offset


class Decisions:
    """The decisions of one writer. Whoever settles or gives up fences all others who do so under this name."""

    def __init__(self, cluster: Cluster, name: str, timeout_ms: int) -> None:
        self._cluster = cluster
        self._name = name
        self._timeout_ms = timeout_ms

    def settle(self, batch: int, written: Sequence[TaskWrites]) -> None:
        """Make the batch count, once, or see to it that an earlier decision about it is carried out."""
        by = self._take()
        made = self._read()
        if made.batch >= batch:
            self._abort(one for one in written if one not in made.written)
            if made.batch == batch:
                self._carry_out(made)
        elif written:
            made = BatchDecision(batch, tuple(sorted(written)))
            self._decide(by, made)
            self._carry_out(made)

    def give_up(self, batch: int, written: Sequence[TaskWrites]) -> None:
        """Abort what was written for a batch, unless it is decided: then it counts, and the next run ends it."""
        self._take()
        made = self._read()
        counts = made.written if made.batch >= batch else ()
        self._abort(one for one in written if one not in counts)

    def sweep(self, written: Sequence[TaskWrites]) -> None:
        """Abort what earlier runs left open under names of tasks that nobody uses now."""
        known = {one.hold.transactional_id for one in (*written, *self._read().written)}
        for transactional_id in open_ids(self._cluster, task_name(self._name, 0)[:-1]):
            if transactional_id not in known:
                take(self._cluster, transactional_id, self._timeout_ms)

    # -- deciding

    def _take(self) -> TransactionHold:
        return take(self._cluster, self._name, self._timeout_ms)

    def _decide(self, by: TransactionHold, decision: BatchDecision) -> None:
        """One transaction: the decision itself, and what has to be written once more for it to be true."""
        lost = [one for one in decision.written if not self._is_open(one.hold)]
        anchor = min(one.anchor for one in decision.written)
        for group, piece in zip(_groups(self._name), _pieces(decision), strict=False):
            add_offsets(self._cluster, by, group, {anchor: CommittedOffset(decision.batch, piece)})
        self._write_again(by, decision.batch, lost)
        end(self._cluster, by, commit=True)

    def _carry_out(self, decision: BatchDecision) -> None:
        lost = [one for one in decision.written if not self._commit(one)]
        if not lost:
            return
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
        return found.offset > batch or found == CommittedOffset(batch, _signature(one.hold))

    # -- writing once more

    def _write_again(self, by: TransactionHold, batch: int, lost: Sequence[TaskWrites]) -> None:
        """Copy what these tasks wrote into the transaction of `by`, byte for byte, each with its mark."""
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
                f"in {span.topic} partition {span.partition}: retention or compaction took them before the batch was "
                "complete. Write the batch again under another name, and give the topic a longer retention."
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

    # -- reading decisions

    def _read(self) -> BatchDecision:
        newest = _newest(self._cluster, self._name)
        if newest.offset == NEVER:
            return BatchDecision(NEVER, ())
        return BatchDecision(newest.offset, _read_written(self._cluster, self._name, newest))


def _newest(cluster: Cluster, group: str, *, waits: bool = True) -> CommittedOffset:
    return max(committed(cluster, group, waits=waits).values(), default=CommittedOffset(NEVER, ""))


def _signature(hold: TransactionHold) -> str:
    return f"{hold.producer_id}:{hold.producer_epoch}"


# -- a decision as text, cut into pieces that fit beside an offset


def _groups(name: str) -> Iterator[str]:
    yield name
    for number in count(1):
        yield f"{name}/more-{number}"


def _pieces(decision: BatchDecision) -> list[str]:
    """`<number of pieces> <JSON>`, the JSON going on in the pieces after it."""
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
