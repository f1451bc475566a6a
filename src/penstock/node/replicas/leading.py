"""The partitions that this broker leads and others copy: serves their fetches and moves the partitions to them.

A change of the ISR is proposed by the leader, as an event of the metadata log. As long as the outcome of a proposal is
unknown, the partition accepts no records: another broker may lead it already.
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
from penstock.core.replication.fetches import ReplicaFetch, ReplicaIdentity
from penstock.core.replication.tracker import FollowerFetch, ReplicaTracker
from penstock.node.replicas.fetcher import Throttle
from penstock.node.replicas.led_move import LedMove
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.tasks import Tasks

logger = logging.getLogger("penstock.replicas")

PROPOSE_AGAIN_S = 0.5
"""Delay before a proposal whose outcome is unknown is made again."""

Change = Callable[[Callable[[Catalog], Sequence[Event]]], Awaitable[None]]


class ReplicaTraffic:
    """Bytes that were sent to replicas of one partition. They are not traffic of readers."""

    __slots__ = ("out_bytes",)

    def __init__(self) -> None:
        self.out_bytes = 0


class ReplicaSource:
    """A led partition as a replica waits for it: until the log grows, not until records are committed."""

    __slots__ = ("_partition", "traffic")

    def __init__(self, partition: Partition) -> None:
        self._partition = partition
        self.traffic = ReplicaTraffic()

    def add_listener(self, listener: Callable[[], None]) -> None:
        self._partition.add_append_listener(listener)

    def remove_listener(self, listener: Callable[[], None]) -> None:
        self._partition.remove_append_listener(listener)

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


class MoveProgress(NamedTuple):
    """A partition that is being moved away from this broker."""

    topic: str
    partition: int
    adding: Sequence[int]
    bytes_left: int


class Leading:
    """The led partitions of one broker that others copy."""

    def __init__(
        self,
        catalog: Catalog,
        identity: Callable[[], ReplicaIdentity],
        change: Change,
        rate: Callable[[], int],
        observe_pause: Callable[[float], None],
    ) -> None:
        self._observe_pause = observe_pause
        self._catalog = catalog
        self._identity = identity
        self._change = change
        self._throttle = Throttle(rate)
        self._moves: dict[PartitionId, LedMove] = {}
        self._proposals: dict[PartitionId, IsrChange] = {}
        """Those whose outcome is unknown."""
        self._tasks = Tasks()
        self._loop = asyncio.get_running_loop()

    def refresh(self, partition: Partition | None, placed: PartitionReplicas) -> None:
        """A partition was placed, changed its role, or is gone."""
        known = self._moves.get(placed.id)
        is_led = partition is not None and partition.is_leader and partition.failure is None
        if known is not None:
            if is_led and known.partition is partition and known.tracker.placed == placed:
                return
            del self._moves[placed.id]
            known.end()
        if not is_led:
            return
        assert partition is not None
        partition.set_writable(is_writable=not self._is_doubtful(placed))
        if len(placed.replicas) > 1:
            tracker = ReplicaTracker(placed, partition.log.epochs.latest_start)
            self._moves[placed.id] = LedMove(partition, tracker, self)

    def forget(self, partition: PartitionId) -> None:
        """The partition was deleted."""
        move = self._moves.pop(partition, None)
        if move is not None:
            move.end()

    def _is_doubtful(self, placed: PartitionReplicas | None) -> bool:
        """Whether another broker may lead the partition already. A change that was based on an earlier state can no
        longer take effect."""
        pending = None if placed is None else self._proposals.get(placed.id)
        return (
            pending is not None and placed is not None and pending.partition_epoch == placed.partition_epoch
        )

    # -- serve replicas

    def read(self, replica: ReplicaIdentity, partition: Partition, wanted: ReplicaFetch) -> ReplicaRead:
        """Batches for a replica, up to the end of the log. What it asks for tells what it has.

        Raises NotLeader, StaleBrokerEpoch or UnknownEpoch; the replica retries once its metadata or ours is newer.
        """
        self._check_replica(replica, partition)
        move = self._moves.get(wanted.partition)
        if move is None:
            raise NotLeader(f"{partition}: broker {replica.broker_id} holds no replica of it")
        log, run, diverging = partition.log, None, None
        source = ReplicaSource(partition)
        error: OffsetOutOfRange | Fenced | None = None
        try:
            if wanted.leader_epoch == NO_EPOCH:
                raise UnknownEpoch(f"{partition}: a replica must state the leader epoch")
            partition.check_epoch(wanted.leader_epoch)
            if wanted.offset < log.start_offset:
                raise OffsetOutOfRange(f"offset {wanted.offset} is before the start {log.start_offset}")
            diverging = find_divergence(log.epochs, log.end_offset, wanted.offset, wanted.last_fetched_epoch)
            if diverging is None:
                run = self._read(replica, move, wanted)
        except (OffsetOutOfRange, Fenced) as refusal:
            error = refusal
        return ReplicaRead(source, run, log.high_watermark, log.start_offset, diverging, error)

    def _check_replica(self, replica: ReplicaIdentity, partition: Partition) -> None:
        registered = self._catalog.cluster.broker(replica.broker_id)
        if registered.epoch != replica.epoch:
            raise StaleBrokerEpoch(
                f"{partition}: broker {replica.broker_id} fetched in epoch {replica.epoch}, it is registered in epoch"
                f" {registered.epoch}"
            )

    def _read(self, replica: ReplicaIdentity, move: LedMove, wanted: ReplicaFetch) -> Slice | None:
        run, served_offset = None, wanted.offset
        if self._throttle.wait_s(self._loop.time()) <= 0:
            run = move.partition.read_uncommitted(wanted.offset, wanted.bytes_max)
        if run is not None:
            served_offset = max(wanted.offset, run.end_offset)
            self._throttle.limit.spend(run.length)
        fetch = FollowerFetch(replica.epoch, wanted.offset, wanted.start_offset)
        move.fetched(replica.broker_id, fetch, served_offset)
        return run

    # -- change the ISR

    def wanted_change(self, move: LedMove) -> IsrChange | None:
        """See MoveHost."""
        if move.tracker.placed.id in self._proposals:
            return None
        high_watermark = move.partition.high_watermark
        return move.tracker.expansion(self._identity().epoch, high_watermark, self._catalog.cluster)

    def propose(self, move: LedMove, change: IsrChange) -> None:
        """See MoveHost."""
        self._proposals[change.partition] = change
        self._tasks.spawn(self._commit(move, change))

    def release(self, partition: Partition) -> None:
        """See MoveHost."""
        placed = self._catalog.cluster.find_partition(PartitionId(partition.topic_id, partition.index))
        if partition.is_leader and not self._is_doubtful(placed):
            partition.set_writable(is_writable=True)

    def paused(self, seconds: float) -> None:
        """See MoveHost."""
        self._observe_pause(seconds)

    async def _commit(self, move: LedMove, change: IsrChange) -> None:
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
                        "cannot hand over %s, which accepts no records meanwhile; retrying: %s",
                        move.partition,
                        error,
                    )
                    await asyncio.sleep(PROPOSE_AGAIN_S)
                    continue
                logger.info("%s was not handed over; retrying later: %s", move.partition, error)
            break
        del self._proposals[change.partition]
        move.settled()
        current = self._moves.get(change.partition)
        if current is not None:  # the partition may have got its role back while the outcome was unknown
            self.release(current.partition)

    def _decide(self, catalog: Catalog, change: IsrChange) -> Sequence[Event]:
        identity = self._identity()
        return decide_change_isr(catalog.cluster, identity.broker_id, identity.epoch, change)

    def progress(self) -> Iterator[MoveProgress]:
        """The moves away from this broker."""
        for _, move in sorted(self._moves.items()):
            partition = move.partition
            yield MoveProgress(
                partition.topic, partition.index, move.tracker.placed.adding, move.bytes_left()
            )

    async def stop(self) -> None:
        await self._tasks.stop()
        for move in self._moves.values():
            move.end()
        self._moves.clear()
