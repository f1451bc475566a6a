"""One partition that this broker follows: applies what its leader answers to the local log.

Every answer is applied only if leader epoch and end of the log are still those of the request. A log that diverges
from the leader's is truncated where the epochs say so, and one that the leader's log no longer reaches starts again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from functools import partial

from penstock.core.errors import BrokerError, CorruptBatch, OffsetOutOfRange
from penstock.core.model import NO_EPOCH, PartitionId
from penstock.core.records.batch import BatchHeader, decode_header
from penstock.core.replication.catch_up import CatchUpProgress
from penstock.core.replication.divergence import EpochEnd, truncation_offset
from penstock.core.replication.fetches import WATERMARK_UNTOLD, ReplicaFetch, ReplicatedBatches
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.tasks import resolver
from penstock.node.runtime.workers import run_blocking

logger = logging.getLogger("penstock.replicas")

STEP_BYTES = 1 << 19
"""Bytes appended in one turn of the event loop."""
RETRY_S_MIN, RETRY_S = 0.02, 0.25
"""Delay before a partition is fetched again after an error; it doubles with each one. The first errors after an
election end as soon as the new leader has heard of it, and nothing is committed until then."""
RATE_S = 5.0
"""The rate of a copy is a mean over about this time."""

LowerRecoveryPoint = Callable[[Partition, int], Awaitable[None]]
"""Makes sure that no saved recovery point of a partition is above an offset."""


class FollowedPartition:
    """A partition, its leader, and how far the copy is."""

    def __init__(
        self,
        partition: Partition,
        leader_id: int,
        runtime: Runtime,
        lower_recovery_point: LowerRecoveryPoint,
        *,
        is_added: bool,
    ) -> None:
        self.partition = partition
        self.id = PartitionId(partition.topic_id, partition.index)
        self.leader_id = leader_id
        self.is_added = is_added
        """The replica is being added: its copy is throttled and limited in number. Others keep up with the leader."""
        self.is_returning = False
        """The replica is not in sync, and the partition can wait for it."""
        self.retry_s = 0.0
        """It is not fetched before this time."""
        self.on_corrupt: Callable[[FollowedPartition, int], None] = lambda followed, offset: None
        """Told when the leader has sent a damaged batch from an offset on."""
        self.leader_high_watermark = -1
        self._runtime = runtime
        self._lower_recovery_point = lower_recovery_point
        self._loop = asyncio.get_running_loop()
        self._progress = CatchUpProgress()
        self._trouble = ""
        self._delay_s = RETRY_S_MIN
        self._rate = 0.0
        self._rated_s = self._loop.time()

    @property
    def is_over(self) -> bool:
        """Whether there is nothing to follow any more: the partition leads, was closed, or its disk failed."""
        return self.partition.is_leader or self.partition.failure is not None

    @property
    def is_flushed(self) -> bool:
        """Whether the whole log is as durable as the topic requires."""
        return self.partition.flushed_offset >= self.partition.log.end_offset

    @property
    def lag(self) -> int:
        """Committed records of the leader that are missing here, as far as this broker knows."""
        return max(0, self.leader_high_watermark - self.partition.end_offset)

    @property
    def is_catching_up(self) -> bool:
        """Whether its copy is throttled: it returns, lacks more than one answer has brought, and gains on its leader.
        Otherwise it would not catch up as long as others do, or ever."""
        return self.is_returning and self.lag > 0 and not self._progress.is_losing

    @property
    def bytes_per_s(self) -> float:
        """The rate of the copy, averaged over the last seconds."""
        return self._decayed()

    def _decayed(self) -> float:
        passed_s = self._loop.time() - self._rated_s
        return self._rate * max(0.0, 1 - passed_s / RATE_S)

    def wanted(self, bytes_max: int) -> ReplicaFetch:
        """The next request: from the end of the log on. All records before it are flushed."""
        log = self.partition.log
        last_epoch = (
            NO_EPOCH if log.end_offset <= log.start_offset else log.epochs.at_offset(log.end_offset - 1)
        )
        return ReplicaFetch(
            self.id,
            log.end_offset,
            self.partition.leader_epoch,
            last_epoch,
            log.start_offset,
            bytes_max,
            log.high_watermark if self.partition.has_readers else WATERMARK_UNTOLD,
        )

    # -- answers

    async def apply(self, wanted: ReplicaFetch, got: ReplicatedBatches) -> None:
        """Apply an answer; what it brought may not be flushed yet. Never raises: after an error the partition is
        fetched again later."""
        try:
            if not self._is_current(wanted.offset, wanted.leader_epoch):
                return
            if got.error is not None:
                await self._handle(wanted, got.error, got.start_offset)
            elif got.diverging is not None:
                await self._truncate(wanted, got.diverging)
            else:
                await self._append(wanted, got)
                self._note_trouble("")
                self._delay_s = RETRY_S_MIN
        except BrokerError as error:
            if not self.is_over:
                self.delay(error)
                if isinstance(error, CorruptBatch):
                    self.on_corrupt(self, wanted.offset)

    def _is_current(self, offset: int, leader_epoch: int) -> bool:
        partition = self.partition
        return (
            not self.is_over and partition.leader_epoch == leader_epoch and partition.log.end_offset == offset
        )

    def delay(self, error: BrokerError) -> None:
        """Fetch again later. The same trouble is logged once, if it lasts: two brokers hear of a new topic or leader at
        slightly different times."""
        self.retry_s = self._loop.time() + self._delay_s
        if self._delay_s == RETRY_S:
            self._note_trouble(str(error), logging.WARNING if error.retriable else logging.ERROR)
        self._delay_s = min(2 * self._delay_s, RETRY_S)

    def _note_trouble(self, trouble: str, level: int = logging.WARNING) -> None:
        if trouble and trouble != self._trouble:
            logger.log(
                level,
                "cannot copy %s from broker %d; retrying: %s",
                self.partition,
                self.leader_id,
                trouble,
                extra={"topic": self.partition.topic, "partition": self.partition.index},
            )
        self._trouble = trouble

    async def _handle(self, wanted: ReplicaFetch, error: BrokerError, start_offset: int) -> None:
        """Errors other than an offset out of range end when one of the two brokers has learned the newer metadata."""
        if isinstance(error, OffsetOutOfRange) and start_offset >= 0:
            await self._restart(wanted, start_offset, str(error))
        else:
            self.delay(error)

    async def _truncate(self, wanted: ReplicaFetch, diverging: EpochEnd) -> None:
        log = self.partition.log
        offset = max(log.start_offset, truncation_offset(log.epochs, log.end_offset, diverging))
        await self._lower_recovery_point(self.partition, offset)
        if self._is_current(wanted.offset, wanted.leader_epoch):
            logger.warning(
                "%s diverges from its leader, broker %d, in epoch %d; truncating it from offset %d to %d",
                self.partition,
                self.leader_id,
                diverging.epoch,
                log.end_offset,
                offset,
            )
            self.partition.truncate(offset)

    async def _restart(self, wanted: ReplicaFetch, offset: int, why: str) -> None:
        await self._lower_recovery_point(self.partition, offset)
        if self._is_current(wanted.offset, wanted.leader_epoch):
            if self.partition.log.end_offset > self.partition.log.start_offset:
                logger.warning(
                    "%s has nothing in common with its leader, broker %d; copying it again from offset %d: %s",
                    self.partition,
                    self.leader_id,
                    offset,
                    why,
                )
            self.partition.restart(offset)

    # -- batches

    async def _append(self, wanted: ReplicaFetch, got: ReplicatedBatches) -> None:
        partition = self.partition
        # Appending stamps offset and epoch in place, with the values that are there: the buffer must be writable.
        records, position = got.records, 0
        if records.readonly:
            records = memoryview(bytearray(records))
        while position < len(records):
            end = min(len(records), position + STEP_BYTES)
            while position < end:
                position += self._append_one(records, position, got.high_watermark)
            if position < len(records):
                offset = partition.log.end_offset
                await asyncio.sleep(0)
                if not self._is_current(offset, wanted.leader_epoch):
                    return
        self._count(len(records))
        self._note_lag(got.high_watermark)
        await self._advance_start(got.start_offset, wanted.leader_epoch)
        if not self._is_current(partition.log.end_offset, wanted.leader_epoch):
            return
        if got.high_watermark > partition.high_watermark:
            partition.advance_high_watermark(min(got.high_watermark, partition.log.end_offset))

    def _note_lag(self, high_watermark: int) -> None:
        self.leader_high_watermark = high_watermark
        was_losing = self._progress.is_losing
        self._progress.note(self.lag, high_watermark, self._loop.time())
        if self.is_returning and self._progress.is_losing and not was_losing:
            logger.info(
                "%s lags by %d records and does not catch up with its leader, broker %d; copying it without a limit",
                self.partition,
                self.lag,
                self.leader_id,
                extra={"topic": self.partition.topic, "partition": self.partition.index},
            )

    def _append_one(self, records: memoryview, position: int, gaps_before: int) -> int:
        """Append the batch at a position; returns its size."""
        header = decode_header(records, position)
        batch = records[position : position + header.size]
        if len(batch) < header.size:
            raise CorruptBatch(f"the batch at offset {header.base_offset} is cut off")
        if self._starts_inside(header):
            self.partition.restart(header.base_offset)
        self.partition.append_replicated(batch, gaps_before)
        return header.size

    def _starts_inside(self, header: BatchHeader) -> bool:
        """The first batch may begin before the leader's start offset, which need not be a batch boundary."""
        log = self.partition.log
        return log.start_offset == log.end_offset and header.base_offset < log.end_offset < header.next_offset

    async def _advance_start(self, offset: int, leader_epoch: int) -> None:
        """Records were deleted on the leader."""
        log = self.partition.log
        if not log.start_offset < offset <= log.end_offset:
            return
        await run_blocking(self._runtime.workers, partial(log.persist_start, offset))
        if self._is_current(log.end_offset, leader_epoch):
            log.advance_start(offset)

    async def flushed(self) -> None:
        """Wait until everything that was applied is as durable as the topic requires: the next fetch tells the leader
        that this replica has it. Never raises, as `apply`."""
        if self.is_over or self.is_flushed:
            return
        flushed: asyncio.Future[BrokerError | None] = self._loop.create_future()
        self.partition.when_flushed(self.partition.log.end_offset, resolver(flushed))
        error = await flushed
        if error is not None and not self.is_over:
            self.delay(error)

    def _count(self, size_bytes: int) -> None:
        if self.is_added:
            self._runtime.meters.copied_bytes += size_bytes
        else:
            self._runtime.meters.replicated_bytes += size_bytes
        self._rate = self._decayed() + size_bytes / RATE_S
        self._rated_s = self._loop.time()
