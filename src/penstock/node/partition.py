"""One partition and its only owner: checks, appends, flushes, publishes, wakes readers. Never decides about topics.

Group commit: the first append after a flush asks for the next one; everything that arrives while a flush is
under way shares the one after it. The loop never waits for the disk; what waits are callbacks, in the order
of their offsets.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from penstock.core.errors import (
    AgainstPolicy,
    BrokerError,
    CorruptBatch,
    DiskFailed,
    DiskFull,
    Fenced,
    NoTransactionalId,
    Offline,
    OffsetOutOfRange,
    OutOfDescriptors,
    UnknownEpoch,
)
from penstock.core.log.compaction import roll_is_due
from penstock.core.log.log import Log, LogLimits, Mark
from penstock.core.log.retention import active_is_expired, expired_count
from penstock.core.log.segment import Slice
from penstock.core.log.transactions import Aborted
from penstock.core.machines.catalog_events import Topic
from penstock.core.model import NO_EPOCH, NO_TIMESTAMP, Acks, Durability, Isolation
from penstock.core.ports import File
from penstock.core.records.batch import TRANSACTIONAL, BatchHeader, decode_header
from penstock.core.records.control import Marker, build_marker
from penstock.core.topic_config import TopicConfig
from penstock.node.admission import Admission, Admitted
from penstock.node.compacting import compact
from penstock.node.damage import Damage
from penstock.node.metrics.meters import Traffic
from penstock.node.payloads import Opened, Payload
from penstock.node.runtime import Runtime
from penstock.node.syncing import carry_out, sync_now
from penstock.node.times import TimedOffset, find_time
from penstock.node.workers import run_blocking

logger = logging.getLogger("penstock.partition")

Settled = Callable[[BrokerError | None], None]
"""Called once: None when the records are as durable as promised, else what went wrong."""


class Appended(NamedTuple):
    """Where a batch went. It is acknowledged only once the high watermark has reached `end_offset`."""

    base_offset: int
    end_offset: int
    append_time_ms: int


class Partition:
    """A log with a leader epoch, a high watermark, waiters and listeners."""

    def __init__(
        self, topic: Topic, index: int, log: Log, config: TopicConfig, leader_epoch: int, runtime: Runtime
    ) -> None:
        self.topic = topic.name
        self.topic_id = topic.id
        self.is_internal = topic.internal
        self.index = index
        self.log = log
        self.traffic = Traffic(log)
        self.damage = Damage(topic.name, index)
        self._runtime = runtime
        self.leader_epoch = leader_epoch
        self.failure: BrokerError | None = None
        self.durable_offset = log.visible.offset
        """Everything before it was synced; what recovery may rely on."""
        self._loop = asyncio.get_running_loop()
        self._is_full = False
        self._is_syncing = False
        self._sync_is_due = False
        self._unflushed_records = 0
        self._is_compacting = False
        self._flush_waiters: list[asyncio.Future[None]] = []
        self._flush_timer: asyncio.TimerHandle | None = None
        self._waiters: deque[tuple[int, Settled]] = deque()
        self._listeners: dict[Callable[[], None], None] = {}
        self._is_notifying = False
        self._start_turn = asyncio.Lock()
        self._take_over(config)

    @property
    def _names(self) -> dict[str, str | int]:
        return {"topic": self.topic, "partition": self.index}

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    def configure(self, config: TopicConfig) -> None:
        """Take over new settings of the topic; they count from the next batch on, and for flushing at once."""
        self._take_over(config)
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        if not self.log.is_dirty:
            return
        if config.durability is Durability.FSYNC:
            self.start_sync()
        elif config.durability is Durability.INTERVAL:
            self._schedule_flush(0)

    def _take_over(self, config: TopicConfig) -> None:
        self.config = config
        self.admission = Admission(repr(self), config, self._runtime.clock)
        jitter_ms = self._runtime.rng.below(min(config.segment_jitter_ms, config.segment_ms) + 1)
        segment_ms = max(1, config.segment_ms - jitter_ms)
        self.log.limits = LogLimits(config.segment_bytes, segment_ms, config.index_interval_bytes)

    # -- what readers may know

    @property
    def high_watermark(self) -> int:
        return self.log.visible.offset

    @property
    def last_stable_offset(self) -> int:
        """Readers of committed records see everything before it."""
        return self.log.stable().offset

    @property
    def start_offset(self) -> int:
        return self.log.start_offset

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    def check_online(self) -> None:
        if self.failure is not None:
            raise Offline(f"{self} is offline: {self.failure}")

    def check_epoch(self, epoch: int) -> None:
        """A caller that states an epoch must state the current one."""
        if epoch == NO_EPOCH or epoch == self.leader_epoch:
            return
        if epoch < self.leader_epoch:
            raise Fenced(f"{self}: epoch {epoch} is over, the leader epoch is {self.leader_epoch}")
        raise UnknownEpoch(
            f"{self}: epoch {epoch} is not known here yet, the leader epoch is {self.leader_epoch}"
        )

    # -- writing

    def append(self, batch: memoryview, acks: int = Acks.ALL, *, in_transaction: bool = False) -> Appended:
        """Check one producer's batch and write it. The bytes are stamped in place and not needed afterwards.

        However long the checks take: for batches that are not compressed. Others are admitted first, apart.
        """
        self.check_online()
        admitted = self.admission.now(batch, acks) or self.admission.work(batch, acks)()
        return self.append_admitted(admitted, in_transaction=in_transaction)

    def append_admitted(self, admitted: Admitted, *, in_transaction: bool = False) -> Appended:
        """Write a batch that was checked.

        `in_transaction`: the coordinator has vouched for the transaction that the batch says it belongs to.
        """
        if self.failure is not None:
            self.check_online()
        batch, header, now_ms = admitted
        if header.attributes & TRANSACTIONAL and not in_transaction:
            raise NoTransactionalId(f"{self}: a batch of a transaction came without its transactional id")
        if header.producer_id >= 0:
            repeated = self.log.producers.check(header)
            if repeated is not None:
                return Appended(repeated.base_offset, repeated.last_offset + 1, NO_TIMESTAMP)
        offset = self._write(batch, header, now_ms)
        append_time_ms = header.max_timestamp_ms if header.has_append_time else NO_TIMESTAMP
        return Appended(offset, offset + header.last_offset_delta + 1, append_time_ms)

    def append_own(self, batch: bytearray) -> Appended:
        """Write a batch that the broker has just made for itself: there is nothing to prove or to refuse in it."""
        self.check_online()
        header = decode_header(batch)
        offset = self._write(memoryview(batch), header, self._runtime.clock.now_ms())
        return Appended(offset, offset + header.last_offset_delta + 1, NO_TIMESTAMP)

    def append_marker(
        self, producer_id: int, epoch: int, marker: Marker, *, is_bumped: bool = False
    ) -> Appended | None:
        """End the transaction that a producer has open here, and fence its older epochs; None if that was done before.

        A marker of an old epoch is refused: it must not touch a newer transaction.
        """
        self.check_online()
        log = self.log
        if not log.producers.check_marker(producer_id, epoch, marker.coordinator_epoch, is_bumped=is_bumped):
            return None
        now_ms = self._runtime.clock.now_ms()
        batch = build_marker(producer_id, epoch, marker, now_ms)
        offset = self._write(memoryview(batch), decode_header(batch), now_ms)
        return Appended(offset, offset + 1, NO_TIMESTAMP)

    def _write(self, batch: memoryview, header: BatchHeader, now_ms: int) -> int:
        try:
            offset = self.log.append(batch, header, self.leader_epoch, now_ms)
        except DiskFull as error:
            self._note_full(error)
            raise
        except DiskFailed as error:
            self.fail(error)
            raise
        if self._is_full:
            self._is_full = False
            logger.info("there is space again: writes are taken", extra=self._names)
        durability = self.config.durability
        if durability is Durability.FSYNC:
            if not self._is_syncing and not self._sync_is_due:
                self._sync_is_due = True
                self._loop.call_soon(self.start_sync)
        else:
            self._publish(self.log.end_mark())
            if durability is Durability.INTERVAL:
                self._schedule_flush(header.count)
        return offset

    def _note_full(self, error: DiskFull) -> None:
        """Say so once, not for every write that is refused."""
        if not self._is_full:
            self._is_full = True
            logger.error("writes are refused until there is space: %s", error, extra=self._names)

    def _schedule_flush(self, count: int) -> None:
        self._unflushed_records += count
        if 0 < self.config.flush_messages <= self._unflushed_records:
            self.start_sync()
        elif self._flush_timer is None:
            self._flush_timer = self._loop.call_later(self.config.flush_ms / 1000, self.start_sync)

    def when_durable(self, offset: int, settled: Settled) -> None:
        """Call back once everything before `offset` is as durable as promised."""
        if self.failure is not None:
            settled(Offline(f"{self} is offline: {self.failure}"))
        elif self.log.visible.offset >= offset:
            settled(None)
        else:
            self._waiters.append((offset, settled))

    # -- flushing

    def start_sync(self) -> None:
        """Flush what is dirty, unless a flush is under way: that one is followed by another."""
        if self._flush_timer is not None:
            self._flush_timer.cancel()
            self._flush_timer = None
        self._sync_is_due = self._is_syncing
        if self._is_syncing or self.failure is not None or not self.log.is_dirty:
            return
        self._is_syncing = True
        self._unflushed_records = 0
        plan = self.log.take_dirty()
        self._runtime.workers.submit(
            partial(carry_out, self._runtime.files, plan), partial(self._synced, plan.mark)
        )

    async def flush(self) -> None:
        """Wait until everything that is dirty now is flushed, or the partition has failed.

        What is being flushed already, then the rest: two waits are enough, however much is written meanwhile.
        """
        for _ in range(2):
            if self.failure is not None or not (self._is_syncing or self.log.is_dirty):
                return
            self.start_sync()
            done = self._loop.create_future()
            self._flush_waiters.append(done)
            await done

    async def sync_to(self, offset: int) -> None:
        """Wait until everything before `offset` is on disk, whatever the topic's durability; raises if it cannot be."""
        while self.failure is None and self.durable_offset < offset:
            self.start_sync()
            done = self._loop.create_future()
            self._flush_waiters.append(done)
            await done
        self.check_online()

    def _synced(self, mark: Mark, outcome: float | BaseException) -> None:
        self._is_syncing = False
        for waiter in self._flush_waiters:
            if not waiter.done():
                waiter.set_result(None)
        self._flush_waiters.clear()
        if isinstance(outcome, BaseException):
            self._sync_failed(outcome)
            return
        self._runtime.meters.fsyncs.observe(outcome)
        self.durable_offset = max(self.durable_offset, mark.offset)
        self._publish(mark)
        is_due, self._sync_is_due = self._sync_is_due, False
        if self.log.is_dirty and (is_due or self._waiters or self.config.durability is Durability.FSYNC):
            self.start_sync()

    def _sync_failed(self, outcome: BaseException) -> None:
        """Whatever kept the flush from ending well, a later one cannot make up for it."""
        if isinstance(outcome, BrokerError):
            self.fail(outcome)
            return
        self.fail(DiskFailed(f"the flush of {self} crashed: {outcome!r}"))
        raise outcome

    def _publish(self, mark: Mark) -> None:
        self.log.publish(mark)
        waiters = self._waiters
        while waiters and waiters[0][0] <= mark.offset:
            waiters.popleft()[1](None)
        if self._listeners and not self._is_notifying:
            self._is_notifying = True
            self._loop.call_soon(self._notify)

    def fail(self, error: BrokerError) -> None:
        """Take the partition offline. What was not durable is never acknowledged and never read."""
        if self.failure is not None:
            return
        self.failure = error
        logger.critical("partition is offline: %s", error, extra=self._names)
        self._settle_all(Offline(f"{self} is offline: {error}"))

    def _settle_all(self, error: BrokerError) -> None:
        waiters, self._waiters = self._waiters, deque()
        for _, settled in waiters:
            settled(error)
        self._notify()

    # -- reading

    def read(
        self, offset: int, bytes_max: int, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> Slice | None:
        """Whole batches from `offset` on that readers may see; None when there are none yet."""
        if self.failure is not None:
            self.check_online()
        try:
            return self.log.read(offset, bytes_max, self._limit(isolation))
        except CorruptBatch as error:
            self.damage.refuse(offset, error)
            raise
        except DiskFailed as error:
            self.fail(error)
            raise

    def open_payload(
        self, place: tuple[File, int], raw: memoryview, header: BatchHeader, when_opened: Opened
    ) -> Payload | None:
        """The records of a batch that lies there, or None until a worker has unfolded them; then one is called."""
        runtime, bytes_max = self._runtime, self.config.message_bytes_max
        return runtime.payloads.open(runtime.workers, place, raw, header, bytes_max, when_opened)

    def _limit(self, isolation: Isolation) -> Mark:
        return self.log.stable() if isolation is Isolation.READ_COMMITTED else self.log.visible

    def aborted_between(self, start: int, end: int) -> list[Aborted]:
        """The aborted transactions that a reader of the offsets from `start` up to `end` has to leave out."""
        return self.log.transactions.aborted_between(start, end)

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call back, once per change, when there may be more to read."""
        self._listeners[listener] = None

    def remove_listener(self, listener: Callable[[], None]) -> None:
        self._listeners.pop(listener, None)

    def _notify(self) -> None:
        self._is_notifying = False
        for listener in list(self._listeners):
            listener()

    def find_time(
        self, time_ms: int, isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> TimedOffset | None:
        """The first record at or after a time."""
        self.check_online()
        return find_time(self.log, time_ms, self._limit(isolation), self.config.message_bytes_max)

    def find_newest(self) -> TimedOffset | None:
        """The first record that has the highest timestamp."""
        self.check_online()
        newest_ms = self.log.newest_time_ms(self.log.visible)
        return None if newest_ms == NO_TIMESTAMP else self.find_time(newest_ms)

    def epoch_at(self, offset: int) -> int:
        return self.log.epochs.at_offset(offset)

    def epoch_end(self, epoch: int) -> tuple[int, int]:
        """(largest epoch at or before `epoch`, where it ends)."""
        self.check_online()
        return self.log.epochs.end_of(epoch, self.log.end_offset)

    # -- shrinking and ending

    async def delete_records(self, before_offset: int) -> int:
        """Forget everything before an offset (-1: before the high watermark); returns the new start offset."""
        if self.config.cleanup_compact and not self.config.cleanup_delete:
            raise AgainstPolicy(
                f"{self}: records are only deleted by key, because cleanup.policy is 'compact'"
            )
        async with self._start_turn:
            self.check_online()
            offset = self.high_watermark if before_offset == -1 else before_offset
            if offset < 0 or offset > self.high_watermark:
                raise OffsetOutOfRange(
                    f"{self}: cannot delete before {before_offset}, the high watermark is {self.high_watermark}"
                )
            if offset > self.log.start_offset:
                await run_blocking(self._runtime.workers, partial(self.log.persist_start, offset))
                self.check_online()
                self.log.advance_start(offset)
            return self.log.start_offset

    def retain(self, producer_expiry_ms: int) -> None:
        """Let go of what is too old or too much.

        A last segment that is too old is closed first and goes the next time.
        """
        config, now_ms = self.config, self._runtime.clock.now_ms()
        self.log.producers.expire(now_ms, producer_expiry_ms)
        if config.cleanup_delete:
            limits = {
                "now_ms": now_ms,
                "retention_ms": config.retention_ms,
                "retention_bytes": config.retention_bytes,
            }
            if active_is_expired(self.log, **limits):
                self.log.roll(now_ms)
                self.start_sync()
                return
            self.log.drop_first(expired_count(self.log, **limits))
        if self.log.active_is_older_than(self.log.limits.segment_ms, now_ms):
            self.log.roll(now_ms)
            self.start_sync()

    async def compact(self) -> bool:
        """Compact what is worth it, if the topic wants that; True when something was."""
        config, now_ms = self.config, self._runtime.clock.now_ms()
        if not config.cleanup_compact or self._is_compacting:
            return False
        if roll_is_due(self.log, config, now_ms):
            self.log.roll(now_ms)
            self.start_sync()
        self._is_compacting = True
        try:
            return await compact(self._runtime, self.log, config, self.last_stable_offset, self.damage.retain)
        finally:
            self._is_compacting = False

    async def sync_recovered(self) -> None:
        """What recovery found must be as durable as it will be called, before anyone reads it."""
        if self.failure is None and self.log.is_dirty:
            try:
                await sync_now(self._runtime, self.log)
            except BrokerError as error:
                self.fail(error)
        self.durable_offset = self.log.visible.offset

    async def settle(self) -> bool:
        """Before a clean stop: flush everything, save what spares the next start work. False when a flush failed."""
        await self.flush()
        if self.failure is None:
            try:
                self.log.save_state()
            except (DiskFull, DiskFailed, OutOfDescriptors) as error:
                logger.warning("%r: the next start has to rebuild its state: %s", self, error)
            except BrokerError as error:
                self.fail(error)
        return self.failure is None

    def close(self, error: BrokerError) -> None:
        """No more work: whoever still waits is told `error`."""
        self.failure = error
        if self._flush_timer is not None:
            self._flush_timer.cancel()
        self._settle_all(error)
        self.log.close()
