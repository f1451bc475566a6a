"""One replica of a partition on this node: its log, role, waits and listeners. Others decide its role and epoch.

Two offsets follow the end of the log. Records before `flushed_offset` are as durable on this node as the topic
requires; records before the high watermark are committed, so readers see them. A leader commits what all in-sync
replicas have flushed, as its tracker says; without other replicas, what it has flushed itself. A follower gets the high
watermark from its leader. The loop never blocks on the disk: callbacks wait for offsets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from penstock.core.errors import BrokerError, DiskFailed, DiskFull, NotLeader, Offline, OutOfDescriptors
from penstock.core.log.log import Log, LogLimits
from penstock.core.log.replicated import append_replicated
from penstock.core.machines.catalog.events import Topic
from penstock.core.model import NO_EPOCH, Durability
from penstock.core.records.batch import BatchHeader, check
from penstock.core.topic_config import TopicConfig
from penstock.node.replicas.flusher import Flusher
from penstock.node.replicas.listeners import Listeners
from penstock.node.replicas.offset_waits import OffsetWaits, Settled
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.tasks import resolver

if TYPE_CHECKING:  # a single broker needs none of it
    from penstock.core.replication.tracker import ReplicaTracker

logger = logging.getLogger("penstock.partition")

FOLLOWED_S_MAX = 3.0
"""Half of the default time after which a silent broker is replaced. Replicas fetch at least twice a second."""

Append = Callable[[memoryview, BatchHeader, int, int], int]
"""`Log.append`, or `append_replicated` to this log."""


class Replica:
    """A log with a role, waits and listeners. Accepts no records before `lead` or `follow`."""

    def __init__(self, topic: Topic, index: int, log: Log, config: TopicConfig, runtime: Runtime) -> None:
        self.topic = topic.name
        self.topic_id = topic.id
        self.is_internal = topic.internal
        self.index = index
        self.log = log
        self._runtime = runtime
        self._loop = asyncio.get_running_loop()
        self.leader_epoch = NO_EPOCH
        self.is_leader = False
        self.is_writable = False
        """Whether it leads and accepts records; a leader that hands over accepts none."""
        self.tracker: ReplicaTracker | None = None
        """What a leader knows about the other replicas; None if there are none."""
        self._is_placed = False
        """It leads as the broker of a cluster."""
        self._holds_commits = False
        """A new leader commits nothing before `track`: there may be other replicas."""
        self.failure: BrokerError | None = None
        self.waits_to_open = False
        """Whether it failed for lack of descriptors or disk space when it was opened: that is tried again."""
        self.on_failed: Callable[[Replica], None] | None = None
        """Told once, when the partition goes offline."""
        self.flushed_offset = log.synced_offset
        """Everything before it is as durable on this node as the topic requires."""
        self._is_full = False
        self._flusher = Flusher(log, runtime, self._synced, self._sync_failed)
        self._flush_waits = OffsetWaits(repr(self), "flushed")
        self._commit_waits = OffsetWaits(repr(self), "committed")
        self._start_waits = OffsetWaits(repr(self), "deleted on all in-sync replicas")
        self._append_listeners = Listeners()
        self._watermark_listeners = Listeners()
        self._adopt(config)

    @property
    def _names(self) -> dict[str, str | int]:
        return {"topic": self.topic, "partition": self.index}

    def __repr__(self) -> str:
        return f"{self.topic}-{self.index}"

    def configure(self, config: TopicConfig) -> None:
        """Apply new topic settings; they affect the next batch, and flushing and committing immediately."""
        self._adopt(config)
        if self.is_leader and self.tracker is not None:
            self.commit()
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

    # -- role

    def lead(self, epoch: int, *, is_placed: bool = False) -> None:
        """Accept records from producers in this epoch, which the caller has made durable before. In a cluster
        (`is_placed`) nothing is committed until `track` tells about the other replicas."""
        assert epoch >= self.leader_epoch, (self, epoch, self.leader_epoch)
        self.leader_epoch, self.is_leader, self.is_writable = epoch, True, True
        self.tracker, self._is_placed, self._holds_commits = None, is_placed, is_placed
        self.log.begin_epoch(epoch)
        if not is_placed:
            self.commit()

    def track(self, tracker: ReplicaTracker | None) -> None:
        """Commit as this tracker says from now on; None: there is no other replica."""
        assert self.is_leader, f"{self} does not lead"
        self.tracker, self._holds_commits = tracker, False
        self.commit()

    def follow(self, epoch: int) -> None:
        """Accept batches from the leader of this epoch. Pending waits fail with NotLeader."""
        assert epoch >= self.leader_epoch, (self, epoch, self.leader_epoch)
        self.leader_epoch, self.is_leader, self.is_writable = epoch, False, False
        self.tracker = None
        moved = NotLeader(f"{self}: another broker leads this partition since epoch {epoch}")
        for waits in (self._flush_waits, self._commit_waits, self._start_waits):
            waits.fail(moved)
        self._append_listeners.notify()
        self._watermark_listeners.notify()

    def set_writable(self, *, is_writable: bool) -> None:
        """A leader stops to accept records before it hands over, so that none is in flight at that moment."""
        assert self.is_leader, f"{self} does not lead"
        self.is_writable = is_writable

    def check_online(self) -> None:
        if self.failure is not None:
            raise Offline(f"{self} is offline: {self.failure}")

    def check_leading(self) -> None:
        """Raise unless this replica is online and leads."""
        self.check_online()
        if not self.is_leader:
            raise NotLeader(f"{self}: this broker does not lead the partition")

    def check_followed(self, *, trusts_new: bool = False) -> None:
        """Raise unless the in-sync replicas have fetched lately: otherwise another broker may lead already, and what is
        known here be outdated. Reads of records need no check: what was committed stays so."""
        tracker, now_s = self.tracker, self._loop.time()
        if tracker is not None and not tracker.is_followed(now_s, FOLLOWED_S_MAX, trusts_new=trusts_new):
            raise NotLeader(
                f"{self}: in-sync replicas have not fetched for {FOLLOWED_S_MAX:.0f} s, another broker may lead the"
                " partition"
            )

    def check_writable(self) -> None:
        """Raise unless this replica is online, leads and accepts records. Nothing was written then."""
        self.check_leading()
        if not self.is_writable:
            raise NotLeader(f"{self}: the partition is being handed over to another broker; retry")

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
    def isr_size(self) -> int:
        """In-sync replicas of a led partition, as `min.insync.replicas` counts them."""
        return 1 if self.tracker is None else self.tracker.isr_size

    @property
    def has_enough_replicas(self) -> bool:
        """Whether records with acks=all are accepted. In a cluster, a minimum above the number of replicas means all of
        them: it may have been set for more. On a single node it is a mistake that must not go unnoticed."""
        isr_size_min = self.config.insync_replicas_min
        if self.tracker is not None:
            isr_size_min = min(isr_size_min, self.tracker.replica_count)
        return self.isr_size >= isr_size_min or (self.tracker is None and self._is_placed)

    @property
    def recovery_point(self) -> int:
        """Everything before it is synced and committed. Uncommitted records are excluded: a follower may have to
        truncate them, and a log shorter than its recovery point fails to open."""
        return min(self.log.synced_offset, self.log.high_watermark)

    # -- append

    def append_replicated(self, batch: memoryview, gaps_before: int = 0) -> int:
        """Append a batch exactly as the leader wrote it: same bytes, offset and epoch. It must be the next one;
        returns the offset after it. Offsets may be missing before `gaps_before`, where the leader's log is compacted.

        Only damaged batches are rejected: the leader has validated everything else, including producer sequences.
        """
        self.check_online()
        assert not self.is_leader, f"{self} leads in epoch {self.leader_epoch} and follows nobody"
        header = check(batch)
        append = partial(append_replicated, self.log, gaps_before)
        self._write(append, batch, header, self._runtime.clock.now_ms())
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
            logger.info("disk space is available again, accepting writes", extra=self._names)
        if self._append_listeners.listening:
            self._append_listeners.notify_soon()
        config = self.config
        if config.durability is Durability.FSYNC:
            if not self._flusher.is_pending:
                self._flusher.request()
        else:
            if self._flush_waits.pending or not self.is_leader:
                self._flushed(self.log.end_offset)
            else:
                self.flushed_offset = self.log.end_offset
                self.commit()
            if config.durability is Durability.INTERVAL:
                self._flusher.schedule(header.count, config.flush_ms, config.flush_messages)
        return offset

    def _note_full(self, error: DiskFull) -> None:
        """Log it once, not for every rejected write."""
        if not self._is_full:
            self._is_full = True
            logger.error("disk is full, rejecting writes until space is freed: %s", error, extra=self._names)

    # -- flush

    def when_flushed(self, offset: int, settled: Settled, timeout_ms: int = 0) -> None:
        """Call back once everything before `offset` is flushed; with TimedOut after `timeout_ms`, unless that is 0 or
        less. After a timeout the records stay in the log and may still become durable."""
        if self.failure is not None:
            settled(Offline(f"{self} is offline: {self.failure}"))
        elif self.flushed_offset >= offset:
            settled(None)
        else:
            self._flush_waits.add(offset, settled, timeout_ms)

    def start_sync(self) -> None:
        """Sync what is dirty, whatever the topic's durability; if a sync is running, another one follows it."""
        self._flusher.start()

    async def sync_dirty(self) -> None:
        """Wait until everything that is dirty now is synced, or the partition has failed."""
        await self._flusher.sync_dirty()

    async def sync_to(self, offset: int) -> None:
        """Wait until everything before `offset` is synced, whatever the topic's durability; raises if that fails."""
        while self.failure is None and self.log.synced_offset < offset:
            if offset > self.log.end_offset:
                raise self._truncated()
            await self._flusher.sync_once()
        self.check_online()

    async def persisted(self, offset: int) -> None:
        """Wait until everything before `offset` is synced here, whatever the topic's durability, and committed; raises
        if that fails."""
        epoch = self.leader_epoch
        await self.sync_to(offset)
        if not self.is_leader or self.leader_epoch != epoch:
            raise NotLeader(f"{self}: the leader epoch ended while records up to offset {offset} were synced")
        committed: asyncio.Future[BrokerError | None] = self._loop.create_future()
        self.when_committed(offset, resolver(committed))
        error = await committed
        if error is not None:
            raise error

    async def sync_recovered(self) -> None:
        """Sync what recovery found before it becomes readable."""
        await self._flusher.sync_dirty()
        if self.failure is None:
            self._flushed(self.log.synced_offset)

    def _synced(self) -> None:
        """A sync has ended. If the log was truncated meanwhile, `synced_offset` has not moved and the next sync
        counts."""
        if self.failure is not None:
            return
        if self.log.synced_offset > self.flushed_offset:
            self._flushed(self.log.synced_offset)
        if self.log.is_dirty and self.flushed_offset < self.log.end_offset:
            self._flusher.start()

    def _flushed(self, offset: int) -> None:
        """Everything before `offset` is flushed. Without other replicas that commits it.

        It is committed before anybody is told: an answer to the producer lets the next request of its connection start,
        and that may read the record.
        """
        self.flushed_offset = offset
        if self.is_leader:
            self.commit()
        if self._flush_waits.pending:
            self._flush_waits.settle(offset)

    def _sync_failed(self, outcome: BaseException) -> None:
        """Take the partition offline: a later sync cannot make up for one that failed."""
        if isinstance(outcome, BrokerError):
            self.fail(outcome)
            return
        self.fail(DiskFailed(f"the flush of {self} crashed: {outcome!r}"))
        raise outcome

    # -- commit

    def when_committed(self, offset: int, settled: Settled, timeout_ms: int = 0) -> None:
        """Like `when_flushed`, once the high watermark has reached `offset`."""
        if self.failure is not None:
            settled(Offline(f"{self} is offline: {self.failure}"))
        elif self.log.high_watermark >= offset:
            settled(None)
        else:
            self._commit_waits.add(offset, settled, timeout_ms)

    def commit(self) -> None:
        """Commit everything that a leader and all in-sync replicas have flushed."""
        tracker = self.tracker
        if tracker is not None:
            offset = tracker.committable(
                self.flushed_offset, self.config.insync_replicas_min, self._loop.time()
            )
            if offset > self.log.high_watermark:
                self.advance_high_watermark(offset)
        elif not self._holds_commits:
            self.advance_high_watermark(self.flushed_offset)
        if self._start_waits.pending and not self._holds_commits:
            own = self.log.start_offset
            self._start_waits.settle(own if tracker is None else tracker.start_offset(own))

    def advance_high_watermark(self, offset: int) -> None:
        """Commit everything before `offset`, a batch boundary: it becomes readable, and waiting callbacks are
        called."""
        log = self.log
        try:
            log.advance(offset)
        except BrokerError as error:  # the boundary had to be looked up in a file
            if error.retriable:
                logger.warning(
                    "cannot advance the high watermark from %d; the next flush retries: %s",
                    log.high_watermark,
                    error,
                    extra=self._names,
                )
            else:
                self.fail(error)
            return
        if self._commit_waits.pending:
            self._commit_waits.settle(log.high_watermark)
        if self._watermark_listeners.listening:
            self._watermark_listeners.notify_soon()

    # -- listeners

    def add_listener(self, listener: Callable[[], None]) -> None:
        """Call back, once per loop iteration, when the high watermark has advanced."""
        self._watermark_listeners.add(listener)

    def remove_listener(self, listener: Callable[[], None]) -> None:
        self._watermark_listeners.remove(listener)

    def add_append_listener(self, listener: Callable[[], None]) -> None:
        """The same when the log has grown: other replicas fetch records before they are committed."""
        self._append_listeners.add(listener)

    def remove_append_listener(self, listener: Callable[[], None]) -> None:
        self._append_listeners.remove(listener)

    # -- truncate and close

    def truncate(self, offset: int) -> None:
        """Truncate the log at the batch that contains `offset`, because it diverges from the leader's log there.

        Waits for truncated records fail. Blocks on the disk. The caller lowers a saved recovery point above `offset`
        first.
        """
        self.check_online()
        try:
            self.log.truncate(offset, self._runtime.clock.now_ms())
        except BrokerError as error:
            self.fail(error)
            raise
        self.flushed_offset = min(self.flushed_offset, self.log.end_offset)
        self._cut()

    def restart(self, offset: int) -> None:
        """Delete all records and continue at `offset`: the leader has none before it. As `truncate` otherwise."""
        self.check_online()
        assert not self.is_leader, f"{self} leads in epoch {self.leader_epoch}"
        try:
            self.log.restart(offset, self._runtime.clock.now_ms())
        except BrokerError as error:
            self.fail(error)
            raise
        self.flushed_offset = offset
        self._cut()

    def _cut(self) -> None:
        for waits in (self._flush_waits, self._commit_waits):
            waits.fail(self._truncated(), self.log.end_offset)
        self._flusher.start()

    def _truncated(self) -> NotLeader:
        return NotLeader(
            f"{self}: the log was truncated to offset {self.end_offset}, another broker leads it"
        )

    def fail(self, error: BrokerError) -> None:
        """Take the partition offline. Records that were not durable are never acknowledged and never served."""
        if self.failure is not None:
            return
        self.failure = error
        logger.critical(
            "partition is offline until it is repaired from another replica, or until a restart: %s",
            error,
            extra=self._names,
        )
        self._settle_all(Offline(f"{self} is offline: {error}"))
        if self.on_failed is not None:
            self._loop.call_soon(self.on_failed, self)

    def _settle_all(self, error: BrokerError) -> None:
        self._flusher.stop()
        for waits in (self._flush_waits, self._commit_waits, self._start_waits):
            waits.fail(error)
            waits.close()
        self._append_listeners.notify()
        self._watermark_listeners.notify()

    async def settle(self) -> bool:
        """Before a clean shutdown: sync everything and save the log's state. False if a sync failed."""
        await self.sync_dirty()
        if self.failure is None:
            try:
                self.log.save_state()
            except (DiskFull, DiskFailed, OutOfDescriptors) as error:
                logger.warning(
                    "cannot save the state of the log; the next start rebuilds it: %s",
                    error,
                    extra=self._names,
                )
            except BrokerError as error:
                self.fail(error)
        return self.failure is None

    def close(self, error: BrokerError) -> None:
        """Close the log; pending waits fail with `error`."""
        self.failure = error
        self._settle_all(error)
        self.log.close()
