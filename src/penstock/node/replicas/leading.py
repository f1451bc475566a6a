"""The partitions that this broker leads and others replicate: serves their fetches and changes the ISR.

A change of the ISR is proposed by the leader, as an event of the metadata log. As long as the outcome of a proposal is
unknown, records are committed on the replicas of both ISRs; if the change moves the leader, none are accepted, because
another broker may lead already.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import NamedTuple

from penstock.core.errors import (
    BrokerError,
    Fenced,
    MetadataUnavailable,
    NotController,
    NotLeader,
    OffsetOutOfRange,
    Refused,
    StaleBrokerEpoch,
    UnknownEpoch,
)
from penstock.core.log.segment import Slice
from penstock.core.log.transactions import Aborted
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.catalog.events import Event
from penstock.core.machines.cluster.partition_state import IsrChange, decide_change_isr
from penstock.core.machines.cluster.values import PartitionReplicas
from penstock.core.model import NO_EPOCH, PartitionId
from penstock.core.replication.divergence import EpochEnd, find_divergence
from penstock.core.replication.fetches import WATERMARK_UNTOLD, ReplicaFetch, ReplicaIdentity
from penstock.core.replication.tracker import FollowerFetch, ReplicaTracker
from penstock.node.replicas.led_partition import LedPartition
from penstock.node.replicas.partition import Partition
from penstock.node.replicas.throttle import Throttle
from penstock.node.runtime.meters import Meters
from penstock.node.runtime.tasks import Tasks

logger = logging.getLogger("penstock.replicas")

CHECKS_PER_LAG = 4
"""How often the lag of replicas is checked within the time that they may lag."""
PROPOSE_AGAIN_S = 0.5
"""Delay before a proposal whose outcome is unknown is made again."""

Change = Callable[[Callable[[Catalog], Sequence[Event]]], Awaitable[None]]


class ReplicaTraffic:
    """Bytes that were sent to replicas. They are not traffic of readers."""

    __slots__ = ("out_bytes",)

    def __init__(self) -> None:
        self.out_bytes = 0


class ReplicaSource:
    """A led partition as a replica waits for it: until the log grows, and until records are committed only if the
    replica has readers of its own."""

    __slots__ = ("_has_readers", "_partition", "traffic")

    def __init__(self, partition: Partition, traffic: ReplicaTraffic, *, has_readers: bool) -> None:
        self._partition = partition
        self._has_readers = has_readers
        self.traffic = traffic

    @property
    def end_offset(self) -> int:
        return self._partition.log.end_offset

    def is_like(self, other: ReplicaSource) -> bool:
        """Whether a listener of the other hears the same."""
        return self._partition is other._partition and self._has_readers == other._has_readers

    def add_listener(self, listener: Callable[[], None]) -> None:
        self._partition.add_append_listener(listener)
        if self._has_readers:
            self._partition.add_listener(listener)

    def remove_listener(self, listener: Callable[[], None]) -> None:
        self._partition.remove_append_listener(listener)
        if self._has_readers:
            self._partition.remove_listener(listener)

    def aborted_between(self, start: int, end: int) -> Sequence[Aborted]:
        """Replicas copy aborted records too."""
        return ()


class ReplicaRead(NamedTuple):
    """The result of a replica's read from one partition."""

    source: ReplicaSource
    run: Slice | None
    high_watermark: int
    start_offset: int
    diverging: EpochEnd | None
    error: OffsetOutOfRange | Fenced | None
    is_news: bool = False
    """The replica waits for a later high watermark, and this is one."""


class MoveProgress(NamedTuple):
    """A partition that is being moved away from this broker."""

    topic: str
    partition: int
    adding: Sequence[int]
    bytes_left: int


class _Proposal(NamedTuple):
    """A change whose outcome is unknown."""

    change: IsrChange
    moves_leader: bool


class Leading:
    """The led partitions of one broker that others replicate."""

    def __init__(
        self,
        catalog: Catalog,
        identity: Callable[[], ReplicaIdentity],
        change: Change,
        rate: Callable[[], int],
        meters: Meters,
        lag_s_max: float,
    ) -> None:
        self._meters = meters
        self._catalog = catalog
        self._identity = identity
        self._change = change
        self.throttle = Throttle(rate)
        self.traffic = ReplicaTraffic()
        self._lag_s_max = lag_s_max
        self._led: dict[PartitionId, LedPartition] = {}
        self._proposals: dict[PartitionId, _Proposal] = {}
        self._tasks = Tasks()
        self._loop = asyncio.get_running_loop()

    def start(self) -> None:
        self._tasks.spawn(self._watch())

    def refresh(self, partition: Partition | None, placed: PartitionReplicas) -> None:
        """A partition was placed, changed its role, or is gone."""
        known = self._led.get(placed.id)
        is_led = partition is not None and partition.is_leader and partition.failure is None
        if known is not None:
            if is_led and known.partition is partition and known.tracker is partition.tracker:
                self._adopt(known, placed)
                return
            del self._led[placed.id]
            known.end()
        if is_led:
            assert partition is not None
            self._lead(partition, placed)

    def _lead(self, partition: Partition, placed: PartitionReplicas) -> None:
        """A change that was based on an earlier state can no longer take effect; one that was based on this state may,
        although this broker has lost and got back its role meanwhile."""
        pending = self._proposals.get(placed.id)
        is_doubtful = pending is not None and pending.change.partition_epoch == placed.partition_epoch
        partition.set_writable(is_writable=not (is_doubtful and pending is not None and pending.moves_leader))
        if len(placed.replicas) == 1 and not is_doubtful:
            partition.track(None)
            return
        proposed = pending.change if is_doubtful and pending is not None else None
        epoch_start = partition.log.epochs.latest_start
        tracker = ReplicaTracker(placed, epoch_start, self._catalog.cluster, self._loop.time(), proposed)
        self._led[placed.id] = LedPartition(partition, tracker, self)
        partition.track(tracker)
        if placed.is_recovering:
            self._led[placed.id].consider()

    def _adopt(self, known: LedPartition, placed: PartitionReplicas) -> None:
        """The same leader epoch goes on, with other replicas or another ISR."""
        before, tracker = len(known.tracker.placed.isr), known.tracker
        tracker.adopt(placed)
        if len(placed.isr) != before:
            if len(placed.isr) > before:
                self._meters.isr_expands += 1
            else:
                self._meters.isr_shrinks += 1
        if len(placed.replicas) == 1:
            del self._led[placed.id]
            known.end()
            self._lead(known.partition, placed)
        else:
            known.partition.commit()

    def forget(self, partition: PartitionId) -> None:
        """The partition was deleted."""
        known = self._led.pop(partition, None)
        if known is not None:
            known.end()

    def find(self, partition: PartitionId) -> LedPartition | None:
        """A led partition that has other replicas."""
        return self._led.get(partition)

    def led(self) -> Iterator[LedPartition]:
        """Every led partition that has other replicas."""
        return iter(self._led.values())

    async def _watch(self) -> None:
        """Remove replicas from the ISR that have fallen behind."""
        while True:
            await asyncio.sleep(self._lag_s_max / CHECKS_PER_LAG)
            for led in list(self._led.values()):
                led.consider()

    # -- serve replicas

    def read(self, replica: ReplicaIdentity, partition: Partition, wanted: ReplicaFetch) -> ReplicaRead:
        """Batches for a replica, up to the end of the log. What it asks for tells what it has.

        Raises NotLeader, StaleBrokerEpoch or UnknownEpoch; the replica retries once its metadata or ours is newer.
        """
        self._check_replica(replica, partition)
        led = self._led.get(wanted.partition)
        if led is None:
            raise NotLeader(f"{partition}: broker {replica.broker_id} holds no replica of it")
        log, run, diverging = partition.log, None, None
        source = ReplicaSource(partition, self.traffic, has_readers=wanted.high_watermark != WATERMARK_UNTOLD)
        error: OffsetOutOfRange | Fenced | None = None
        try:
            if wanted.leader_epoch == NO_EPOCH:
                raise UnknownEpoch(f"{partition}: a replica must state the leader epoch")
            partition.check_epoch(wanted.leader_epoch)
            if wanted.offset < log.start_offset:
                raise OffsetOutOfRange(f"offset {wanted.offset} is before the start {log.start_offset}")
            diverging = find_divergence(log.epochs, log.end_offset, wanted.offset, wanted.last_fetched_epoch)
            if diverging is None:
                run = self._read(replica, led, wanted)
        except (OffsetOutOfRange, Fenced) as refusal:
            error = refusal
        is_news = log.high_watermark > wanted.high_watermark
        return ReplicaRead(source, run, log.high_watermark, log.start_offset, diverging, error, is_news)

    def _check_replica(self, replica: ReplicaIdentity, partition: Partition) -> None:
        registered = self._catalog.cluster.broker(replica.broker_id)
        if registered.epoch != replica.epoch:
            raise StaleBrokerEpoch(
                f"{partition}: broker {replica.broker_id} fetched in epoch {replica.epoch}, it is registered in epoch"
                f" {registered.epoch}"
            )

    def _read(self, replica: ReplicaIdentity, led: LedPartition, wanted: ReplicaFetch) -> Slice | None:
        run, served_offset = None, wanted.offset
        is_added = replica.broker_id in led.tracker.placed.adding
        if is_added and self.throttle.wait_s(self._loop.time()) > 0:
            self.throttle.waits += 1
        else:
            run = led.partition.read_uncommitted(wanted.offset, wanted.bytes_max)
        if run is not None:
            served_offset = max(wanted.offset, run.end_offset)
            if is_added:
                self.throttle.limit.spend(run.length)
        fetch = FollowerFetch(replica.epoch, wanted.offset, wanted.start_offset)
        led.fetched(replica.broker_id, fetch, served_offset)
        return run

    # -- change the ISR

    def wanted_change(self, led: LedPartition) -> IsrChange | None:
        """See LeaderHost."""
        tracker, partition = led.tracker, led.partition
        if tracker.placed.id in self._proposals:
            return None
        return tracker.wanted_change(
            self._identity().epoch,
            partition.high_watermark,
            partition.log.end_offset,
            self._loop.time(),
            self._lag_s_max,
        )

    def propose(self, led: LedPartition, change: IsrChange) -> None:
        """See LeaderHost."""
        self._proposals[change.partition] = _Proposal(change, led.tracker.moves_leader(change))
        led.tracker.propose(change)
        self._tasks.spawn(self._commit(led, change))

    def release(self, partition: Partition) -> None:
        """See LeaderHost."""
        place = PartitionId(partition.topic_id, partition.index)
        placed, pending = self._catalog.cluster.find_partition(place), self._proposals.get(place)
        is_doubtful = (
            pending is not None
            and pending.moves_leader
            and placed is not None
            and pending.change.partition_epoch == placed.partition_epoch
        )
        if partition.is_leader and not is_doubtful:
            partition.set_writable(is_writable=True)

    def paused(self, seconds: float) -> None:
        """See LeaderHost."""
        self._meters.handovers.observe(seconds)

    async def _commit(self, led: LedPartition, change: IsrChange) -> None:
        """Make the change until its outcome is known. A refusal of a later attempt also tells that the earlier ones
        had no effect: it was decided on a later state."""
        is_unknown = False
        while True:
            try:
                await self._change(lambda catalog: self._decide(catalog, change))
            except BrokerError as error:
                is_refused = isinstance(error, Refused | NotController)
                if not is_refused and (is_unknown or not isinstance(error, MetadataUnavailable)):
                    is_unknown = True
                    logger.warning(
                        "the outcome of a change of the in-sync replicas of %s is unknown; retrying: %s",
                        led.partition,
                        error,
                    )
                    await asyncio.sleep(PROPOSE_AGAIN_S)
                    continue
                logger.info(
                    "the in-sync replicas of %s were not changed; retrying later: %s", led.partition, error
                )
            break
        del self._proposals[change.partition]
        self._settled(led, change)

    def _settled(self, led: LedPartition, change: IsrChange) -> None:
        """The partition may have got its role back, in another leader epoch, while the outcome was unknown."""
        current = self._led.get(change.partition)
        for one in (led, current):
            if one is not None and one.tracker.proposed is change:
                one.tracker.propose(None)
        led.settled()
        if current is not None and current is not led:
            current.settled()
            self.release(current.partition)

    def _decide(self, catalog: Catalog, change: IsrChange) -> Sequence[Event]:
        identity = self._identity()
        return decide_change_isr(catalog.cluster, identity.broker_id, identity.epoch, change)

    def progress(self) -> Iterator[MoveProgress]:
        """The partitions that other brokers are being added to."""
        for _, led in sorted(self._led.items()):
            partition, adding = led.partition, led.tracker.placed.adding
            if adding:
                yield MoveProgress(partition.topic, partition.index, adding, led.bytes_left())

    async def stop(self) -> None:
        await self._tasks.stop()
        for led in self._led.values():
            led.end()
        self._led.clear()
