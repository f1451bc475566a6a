"""A partition as the waist uses it: appends of producers, reads of consumers.

What all replicas share (role, flushing, committing, waiting) is in `replicas/replica`.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import NamedTuple

from penstock.core.errors import (
    AgainstPolicy,
    BrokerError,
    CorruptBatch,
    DiskFailed,
    DiskFull,
    Fenced,
    NotEnoughReplicas,
    NoTransactionalId,
    OffsetOutOfRange,
    OutOfOrder,
    TornSegment,
    UnknownEpoch,
)
from penstock.core.log.log import BatchBoundary, Log
from penstock.core.log.marker_guards import MarkerGuards
from penstock.core.log.segment import Slice
from penstock.core.log.transactions import Aborted
from penstock.core.machines.catalog.events import Topic
from penstock.core.model import NO_EPOCH, NO_TIMESTAMP, Acks, Isolation
from penstock.core.records.batch import LOG_APPEND_TIME, TRANSACTIONAL, BatchHeader, decode_header
from penstock.core.records.control import Marker, build_marker
from penstock.core.topic_config import TopicConfig
from penstock.node.replicas.admission import Admission, Admitted
from penstock.node.replicas.damage import Damage
from penstock.node.replicas.replica import Replica
from penstock.node.replicas.times import TimedOffset, find_time
from penstock.node.runtime.meters import Traffic
from penstock.node.runtime.payloads import Opened, Payload, PayloadKey
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.tasks import resolver
from penstock.node.runtime.workers import run_blocking

READERS_S = 60.0
"""A follower counts as having readers for this long after the last read: clients may poll rarely."""

_new = tuple.__new__


class Appended(NamedTuple):
    """Offsets of an appended batch. It is acknowledged once `end_offset` is flushed or committed, depending on
    acks."""

    base_offset: int
    end_offset: int
    append_time_ms: int


class Partition(Replica):
    """A replica that producers and readers use."""

    def __init__(self, topic: Topic, index: int, log: Log, config: TopicConfig, runtime: Runtime) -> None:
        super().__init__(topic, index, log, config, runtime)
        self.traffic = Traffic(log)
        self.damage = Damage(topic.name, index)
        self._start_turn = asyncio.Lock()
        self.guards = MarkerGuards()
        """Writes in transactions that are on their way here."""
        self._read_s = -READERS_S

    def _adopt(self, config: TopicConfig) -> None:
        super()._adopt(config)
        self.admission = Admission(repr(self), config, self._runtime.clock, self.check_replicas)

    def follow(self, epoch: int) -> None:
        super().follow(epoch)
        self.guards.void_all()

    def check_epoch(self, epoch: int) -> None:
        """Raise unless the caller's epoch, if it states one, is the current leader epoch."""
        if epoch == NO_EPOCH or epoch == self.leader_epoch:
            return
        if epoch < self.leader_epoch:
            raise Fenced(f"{self}: epoch {epoch} is stale, the leader epoch is {self.leader_epoch}")
        raise UnknownEpoch(f"{self}: epoch {epoch} is not known yet, the leader epoch is {self.leader_epoch}")

    def check_replicas(self) -> None:
        """Raise NotEnoughReplicas while too few replicas are in sync for acks=all."""
        if not self.has_enough_replicas:
            raise NotEnoughReplicas(
                f"{self}: {self.isr_size} replica(s) are in sync, min.insync.replicas is"
                f" {self.config.insync_replicas_min}: start the brokers of the others, or lower the setting"
            )

    # -- append

    def append(self, batch: memoryview, acks: int = Acks.ALL, *, in_transaction: bool = False) -> Appended:
        """Validate a producer's batch and append it. The bytes are stamped in place and not needed afterwards.

        Validates on the loop however long that takes, so only for uncompressed batches.
        """
        self.check_writable()
        admitted = self.admission.now(batch, acks) or self.admission.work(batch, acks)()
        return self.append_admitted(admitted, in_transaction=in_transaction)

    def append_admitted(self, admitted: Admitted, *, in_transaction: bool = False) -> Appended:
        """Append a validated batch.

        `in_transaction`: the coordinator has vouched for the transaction of the batch.
        """
        batch, header, now_ms = admitted
        if self.failure is not None or not self.is_writable:
            if header.producer_id >= 0 and self.is_leader:
                self.log.producers.expect(header, now_ms)
            self.check_writable()
        if header.attributes & TRANSACTIONAL and not in_transaction:
            raise NoTransactionalId(f"{self}: a transactional batch was produced without a transactional id")
        if header.producer_id >= 0:
            try:
                repeated = self.log.producers.check(header)
            except OutOfOrder:
                # The batches in between may be on another broker, which leads already: producers give up their epoch
                # after OutOfOrder, and send batches again that were written.
                self.check_followed()
                raise
            if repeated is not None:
                return Appended(repeated.base_offset, repeated.last_offset + 1, NO_TIMESTAMP)
        try:
            offset = self._write(self.log.append, batch, header, now_ms)
        except DiskFull:
            if header.producer_id >= 0:
                self.log.producers.expect(header, now_ms)
            raise
        append_time_ms = header.max_timestamp_ms if header.attributes & LOG_APPEND_TIME else NO_TIMESTAMP
        return _new(Appended, (offset, offset + header.last_offset_delta + 1, append_time_ms))

    def append_own(self, batch: bytearray) -> Appended:
        """Append a batch that the broker itself has built, without validation."""
        self.check_writable()
        header = decode_header(batch)
        offset = self._write(self.log.append, memoryview(batch), header, self._runtime.clock.now_ms())
        return Appended(offset, offset + header.last_offset_delta + 1, NO_TIMESTAMP)

    def append_marker(
        self, producer_id: int, epoch: int, marker: Marker, *, is_bumped: bool = False
    ) -> Appended | None:
        """End the open transaction of a producer and fence its older epochs; None if the marker was written before.

        A marker of an old epoch is rejected: it must not end a newer transaction.
        """
        self.check_writable()
        log = self.log
        self.guards.void(producer_id, epoch, is_bumped=is_bumped)
        if not log.producers.check_marker(producer_id, epoch, marker.coordinator_epoch, is_bumped=is_bumped):
            return None
        now_ms = self._runtime.clock.now_ms()
        batch = build_marker(producer_id, epoch, marker, now_ms)
        offset = self._write(log.append, memoryview(batch), decode_header(batch), now_ms)
        return Appended(offset, offset + 1, NO_TIMESTAMP)

    # -- read

    @property
    def last_stable_offset(self) -> int:
        """read_committed readers see everything before it."""
        return self.log.stable().offset

    def read(
        self, offset: int, bytes_max: int, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> Slice | None:
        """Whole visible batches from `offset` on; None if there are none yet. Raises NotLeader for an offset behind the
        end if another broker may lead already: it may have written there."""
        if offset > self.log.end_offset:
            self.check_followed()
        return self._read_to(self._limit(isolation), offset, bytes_max)

    def read_uncommitted(self, offset: int, bytes_max: int) -> Slice | None:
        """The same up to the end of the log, for other replicas."""
        return self._read_to(self.log.end_mark(), offset, bytes_max)

    def _read_to(self, limit: BatchBoundary, offset: int, bytes_max: int) -> Slice | None:
        if self.failure is not None:
            self.check_online()
        try:
            return self.log.read(offset, bytes_max, limit)
        except (CorruptBatch, TornSegment) as error:
            self.damage.refuse(offset, error)
            self.report_damage(error)
            raise
        except DiskFailed as error:
            self.fail(error)
            raise

    def report_damage(self, error: CorruptBatch | TornSegment) -> None:
        """Records are damaged. If other replicas have them, one of those leads from now on, and this one is repaired;
        else only the reads of these records fail."""
        if not self.is_leader or (self.tracker is not None and len(self.tracker.placed.isr) > 1):
            self.fail(error)

    def open_payload(
        self, place: PayloadKey, raw: memoryview, header: BatchHeader, when_opened: Opened
    ) -> Payload | None:
        """The decompressed records of the batch at `place`; None while a worker decompresses it, then `when_opened` is
        called."""
        runtime, bytes_max = self._runtime, self.config.message_bytes_max
        return runtime.payloads.open(runtime.workers, place, raw, header, bytes_max, when_opened)

    def _limit(self, isolation: Isolation) -> BatchBoundary:
        return self.log.stable() if isolation is Isolation.READ_COMMITTED else self.log.high_watermark_mark

    def note_reader(self) -> None:
        """A consumer reads from this replica although it follows: it should hear soon of what is committed."""
        self._read_s = self._loop.time()

    @property
    def has_readers(self) -> bool:
        """Whether a consumer has read from this follower lately."""
        return self._loop.time() - self._read_s < READERS_S

    def aborted_between(self, start: int, end: int) -> list[Aborted]:
        """The aborted transactions that overlap the offsets from `start` up to `end`."""
        return self.log.transactions.aborted_between(start, end)

    def find_time(
        self, time_ms: int, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> TimedOffset | None:
        """The first record at or after a timestamp."""
        self.check_online()
        return find_time(self.log, time_ms, self._limit(isolation), self.config.message_bytes_max)

    def find_newest(self) -> TimedOffset | None:
        """The first record that has the highest timestamp."""
        self.check_online()
        newest_ms = self.log.newest_time_ms(self.log.high_watermark_mark)
        return None if newest_ms == NO_TIMESTAMP else self.find_time(newest_ms)

    def epoch_at(self, offset: int) -> int:
        return self.log.epochs.at_offset(offset)

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """(largest epoch at or before `epoch`, where it ends)."""
        self.check_online()
        return self.log.epochs.end_of(epoch, self.log.end_offset)

    # -- delete

    async def delete_records(self, before_offset: int) -> int:
        """Delete all records before an offset (-1: before the high watermark), here and on all in-sync replicas: they
        must not come back with the next leader. Returns the new start offset."""
        if self.config.cleanup_compact and not self.config.cleanup_delete:
            raise AgainstPolicy(
                f"{self}: records are only deleted by key, because cleanup.policy is 'compact'"
            )
        async with self._start_turn:
            self.check_writable()
            offset = self.high_watermark if before_offset == -1 else before_offset
            if offset < 0 or offset > self.high_watermark:
                raise OffsetOutOfRange(
                    f"{self}: cannot delete before {before_offset}, the high watermark is {self.high_watermark}"
                )
            if offset > self.log.start_offset:
                await run_blocking(self._runtime.workers, partial(self.log.persist_start, offset))
                self.check_leading()
                self.log.advance_start(offset)
                self._append_listeners.notify_soon()  # replicas that wait for records hear of it at once
            offset = self.log.start_offset
        deleted: asyncio.Future[BrokerError | None] = self._loop.create_future()
        self._start_waits.add(offset, resolver(deleted), 0)
        self.commit()
        error = await deleted
        if error is not None:
            raise error
        return offset
