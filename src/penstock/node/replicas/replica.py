"""One copy of a partition on this node: its log, its role, and who waits on it. Never decides which role or epoch.

Two offsets follow the end of the log. Before `flushed_offset` records are as durable on this node as the topic
promises; before the high watermark they are committed: readers see them. A leader without other replicas commits what
it has flushed; a follower is told what its leader has committed. The loop never waits for the disk; what waits are
callbacks, in the order of their offsets.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from penstock.core.errors import BrokerError, DiskFailed, DiskFull, NotLeader, Offline, OutOfDescriptors
from penstock.core.log.log import Log, LogLimits
from penstock.core.machines.catalog.events import Topic
from penstock.core.model import NO_EPOCH, Durability
from penstock.core.records.batch import BatchHeader, check
from penstock.core.topic_config import TopicConfig
from penstock.node.replicas.flusher import Flusher
from penstock.node.replicas.listeners import Listeners
from penstock.node.replicas.offset_waits import OffsetWaits, Settled
from penstock.node.runtime.runtime import Runtime

logger = logging.getLogger("penstock.partition")

Append = Callable[[memoryview, BatchHeader, int, int], int]
"""`Log.append` or `Log.append_replicated`."""


class Replica:
    """A log with a role, waiters and listeners. It takes no records before `lead` or `follow` gives it a role."""

    def __init__(self, topic: Topic, index: int, log: Log, config: TopicConfig, runtime: Runtime) -> None:
        self.topic = topic.name
        self.topic_id = topic.id
        self.is_internal = topic.internal
        self.index = index
        self.log = log
        self._runtime = runtime
        self.leader_epoch = NO_EPOCH
        self.is_leader = False
        self.failure: BrokerError | None = None
        self.flushed_offset = log.synced_offset
        """Everything before it is as durable on this node as the topic promises."""
        self._is_full = False
        self._flusher = Flusher(log, runtime, self._synced, self._sync_failed)
        self._flush_waits = OffsetWaits(repr(self), "flushed")
        self._commit_waits = OffsetWaits(repr(self), "committed")
        self._append_listeners = Listeners()
        self._watermark_listeners = Listeners()
        self._adopt(config)

    @property
    def _names(self) -> dict[str, str | int]:
        return {"topic": self.topic, "partition": self.index}

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    def configure(self, config: TopicConfig) -> None:
        """Adopt new settings of the topic; they count from the next batch on, and for flushing at once."""
        self._adopt(config)
        self._flusher.unschedule()
        if not self.log.is_dirty:
            return
        if config.durability is Durability.FSYNC:
            self._flusher.start()
        elif config.durability is Durability.INTERVAL:
            self._flusher.schedule(0, config.flush_ms, config.flush_messages)

    def _adopt(self, config: TopicConfig) -> None:
        self.config = config
        jitter_ms = self._runtime.rng.below(min(config.segment_jitter_ms, config.segment_ms) + 1)
        segment_ms = max(1, config.segment_ms - jitter_ms)
        self.log.limits = LogLimits(config.segment_bytes, segment_ms, config.index_interval_bytes)

    # -- the role

    def lead(self, epoch: int) -> None:
        """Take records from producers, in this epoch. Whoever decides the epoch has made it durable before."""
        assert epoch >= self.leader_epoch, (self, epoch, self.leader_epoch)
        self.leader_epoch, self.is_leader = epoch, True
        self.log.begin_epoch(epoch)
        self.advance_high_watermark(self.flushed_offset)

    def follow(self, epoch: int) -> None:
        """Take batches from the replica that leads in this epoch. Whoever waits here is told to look for it."""
        assert epoch >= self.leader_epoch, (self, epoch, self.leader_epoch)
        self.leader_epoch, self.is_leader = epoch, False
        moved = NotLeader(f"{self}: another broker leads this partition since epoch {epoch}")
        self._flush_waits.fail(moved)
        self._commit_waits.fail(moved)

    def check_online(self) -> None:
        if self.failure is not None:
            raise Offline(f"{self} is offline: {self.failure}")

    def check_leading(self) -> None:
        """Only a leader that is online takes records from producers."""
        self.check_online()
        if not self.is_leader:
            raise NotLeader(f"{self}: this broker does not lead the partition")

    # -- offsets

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    @property
    def start_offset(self) -> int:
        return self.log.start_offset

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    @property
    def recovery_point(self) -> int:
        """What the next start may rely on. Not more than what is committed: a follower may have to truncate the rest,
        and a log that is shorter than its recovery point refuses to open."""
        return min(self.log.synced_offset, self.log.high_watermark)

    # -- writing

    def append_replicated(self, batch: memoryview) -> int:
        """Write a batch as the leader wrote it: same bytes, same offset, same epoch. It must be the next one; returns
        the offset behind it.

        Nothing but damage is refused: the leader has decided about everything else, also the producer's sequence.
        """
        self.check_online()
        assert not self.is_leader, f"{self} leads in epoch {self.leader_epoch} and follows nobody"
        header = check(batch)
        self._write(self.log.append_replicated, batch, header, self._runtime.clock.now_ms())
        return header.next_offset

    def _write(self, append: Append, batch: memoryview, header: BatchHeader, now_ms: int) -> int:
        try:
            offset = append(batch, header, self.leader_epoch, now_ms)
        except DiskFull as error:
            self._note_full(error)
            raise
        except DiskFailed as error:
            self.fail(error)
            raise
        if self._is_full:
            self._is_full = False
            logger.info("disk space is available again, writes are accepted", extra=self._names)
        if self._append_listeners.listening:
            self._append_listeners.notify_soon()
        config = self.config
        if config.durability is Durability.FSYNC:
            if not self._flusher.is_pending:
                self._flusher.request()
        else:
            self._flushed(self.log.end_offset)
            if config.durability is Durability.INTERVAL:
                self._flusher.schedule(header.count, config.flush_ms, config.flush_messages)
        return offset

    def _note_full(self, error: DiskFull) -> None:
        """Say so once, not for every write that is refused."""
        if not self._is_full:
            self._is_full = True
            logger.error(
                "disk is full, writes are refused until there is space: %s", error, extra=self._names
            )

    # -- flushing

    def when_flushed(self, offset: int, settled: Settled, timeout_ms: int = 0) -> None:
        """Call back once everything before `offset` is as durable on this node as the topic promises; with TimedOut
        after `timeout_ms`, unless that is 0 or less. The records stay in the log then, and may become durable."""
        if self.failure is not None:
            settled(Offline(f"{self} is offline: {self.failure}"))
        elif self.flushed_offset >= offset:
            settled(None)
        else:
            self._flush_waits.add(offset, settled, timeout_ms)

    def start_sync(self) -> None:
        """Sync what is dirty, whatever the topic's durability; a sync that is under way is followed by another."""
        self._flusher.start()

    async def sync_dirty(self) -> None:
        """Wait until everything that is dirty now is on disk, or the partition has failed."""
        await self._flusher.sync_dirty()

    async def sync_to(self, offset: int) -> None:
        """Wait until everything before `offset` is on disk, whatever the topic's durability; raises if it cannot be."""
        while self.failure is None and self.log.synced_offset < offset:
            if offset > self.log.end_offset:
                raise self._truncated()
            await self._flusher.sync_once()
        self.check_online()

    async def sync_recovered(self) -> None:
        """What recovery found must be as durable as it will be called, before anyone reads it."""
        await self._flusher.sync_dirty()
        if self.failure is None:
            self._flushed(self.log.synced_offset)

    def _synced(self) -> None:
        """A sync is done. If the log was truncated meanwhile, `synced_offset` has not moved and the next one counts."""
        if self.failure is not None:
            return
        if self.log.synced_offset > self.flushed_offset:
            self._flushed(self.log.synced_offset)
        if self.log.is_dirty and self.flushed_offset < self.log.end_offset:
            self._flusher.start()

    def _flushed(self, offset: int) -> None:
        """Everything before `offset` is as durable here as promised. Without other replicas that commits it.

        It is committed before anybody is told: an answer to the producer lets the next request of its connection start,
        and that may read the record.
        """
        self.flushed_offset = offset
        if self.is_leader:
            self.advance_high_watermark(offset)
        if self._flush_waits.pending:
            self._flush_waits.settle(offset)

    def _sync_failed(self, outcome: BaseException) -> None:
        """Whatever kept the sync from ending well, a later one cannot make up for it."""
        if isinstance(outcome, BrokerError):
            self.fail(outcome)
            return
        self.fail(DiskFailed(f"the flush of {self} crashed: {outcome!r}"))
        raise outcome

    # -- committing

    def when_committed(self, offset: int, settled: Settled, timeout_ms: int = 0) -> None:
        """As `when_flushed`, once the high watermark has reached `offset`."""
        if self.failure is not None:
            settled(Offline(f"{self} is offline: {self.failure}"))
        elif self.log.high_watermark >= offset:
            settled(None)
        else:
            self._commit_waits.add(offset, settled, timeout_ms)

    def advance_high_watermark(self, offset: int) -> None:
        """Commit everything before `offset`, a batch boundary: readers may see it, and whoever waits for it is told."""
        log = self.log
        try:
            log.advance(offset)
        except BrokerError as error:  # the boundary had to be searched for in a file
            if error.retriable:
                logger.warning("high watermark stays at %d: %s", log.high_watermark, error, extra=self._names)
            else:
                self.fail(error)
            return
        if self._commit_waits.pending:
            self._commit_waits.settle(log.high_watermark)
        if self._watermark_listeners.listening:
            self._watermark_listeners.notify_soon()

    # -- listeners

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call back, once per turn of the loop, when readers may see more: the high watermark has moved."""
        self._watermark_listeners.add(listener)

    def remove_listener(self, listener: Callable[[], None]) -> None:
        self._watermark_listeners.remove(listener)

    def add_append_listener(self, listener: Callable[[], None]) -> None:
        """The same when the log has grown: other replicas copy records before readers see them."""
        self._append_listeners.add(listener)

    def remove_append_listener(self, listener: Callable[[], None]) -> None:
        self._append_listeners.remove(listener)

    # -- shrinking and ending

    def truncate(self, offset: int) -> None:
        """Cut the log at the batch that reaches behind `offset`, because the leader's log differs from there on.

        Whoever waits for a record that is cut is told so. Blocks on the disk. Below the recovery point that was last
        saved the owner of that file lowers it first.
        """
        self.check_online()
        try:
            self.log.truncate(offset, self._runtime.clock.now_ms())
        except BrokerError as error:
            self.fail(error)
            raise
        self.flushed_offset = min(self.flushed_offset, self.log.end_offset)
        for waits in (self._flush_waits, self._commit_waits):
            waits.fail(self._truncated(), self.log.end_offset)
        self._flusher.start()

    def _truncated(self) -> NotLeader:
        return NotLeader(
            f"{self}: the log was truncated to offset {self.end_offset}, another broker leads it"
        )

    def fail(self, error: BrokerError) -> None:
        """Take the partition offline. What was not durable is never acknowledged and never read."""
        if self.failure is not None:
            return
        self.failure = error
        logger.critical("partition is offline: %s", error, extra=self._names)
        self._settle_all(Offline(f"{self} is offline: {error}"))

    def _settle_all(self, error: BrokerError) -> None:
        self._flusher.stop()
        for waits in (self._flush_waits, self._commit_waits):
            waits.fail(error)
            waits.close()
        self._append_listeners.notify()
        self._watermark_listeners.notify()

    async def settle(self) -> bool:
        """Before a clean stop: sync everything, save what spares the next start work. False when a sync failed."""
        await self.sync_dirty()
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
        self._settle_all(error)
        self.log.close()
