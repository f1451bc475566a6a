"""The partitions that this broker follows, as the catalog says: assigns them to the fetchers of their leaders.

Copies of partitions that are being moved here are limited in number: the others wait, in the order of their ids. What
waits is in the catalog, so nothing is lost when a broker is killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from heapq import heappop, heappush
from typing import NamedTuple

from penstock.core.errors import BrokerError
from penstock.core.machines.catalog.catalog import Catalog
from penstock.core.machines.cluster.values import NO_LEADER, PartitionReplicas
from penstock.core.model import PartitionId
from penstock.core.replication.fetches import ReplicaIdentity
from penstock.node.peers.links import PeerLinks
from penstock.node.peers.scrub_calls import WantedChecksum, ask_checksum
from penstock.node.replicas.checksums import TO_NEXT_END
from penstock.node.replicas.fetcher import ReplicaFetcher
from penstock.node.replicas.followed import FollowedPartition, LowerRecoveryPoint
from penstock.node.replicas.partition import Partition
from penstock.node.replicas.throttle import Throttles
from penstock.node.runtime.runtime import Runtime
from penstock.node.runtime.tasks import Tasks

SUSPECT_S = 10.0
"""How long the leader of a partition is not asked again to verify what it sends."""


class CopyProgress(NamedTuple):
    """A partition that is being moved to this broker. It waits for its turn while `is_copying` is false."""

    topic: str
    partition: int
    leader_id: int
    is_copying: bool
    copied_bytes: int
    """Size of the copy."""
    lag: int
    """Committed records that are missing, as far as this broker knows."""
    bytes_per_s: float


class Following:
    """The followed partitions of one broker. Does nothing until it is active."""

    def __init__(
        self,
        catalog: Catalog,
        runtime: Runtime,
        links: PeerLinks,
        identity: Callable[[], ReplicaIdentity],
        throttles: Throttles,
        copies_max: int,
        lower_recovery_point: LowerRecoveryPoint,
    ) -> None:
        self._catalog = catalog
        self._runtime = runtime
        self._links = links
        self._identity = identity
        self.throttles = throttles
        self._copies_max = copies_max
        self._lower_recovery_point = lower_recovery_point
        self._held: dict[PartitionId, Partition] = {}
        """All partitions to follow, whether they are fetched or wait."""
        self._waiting: list[PartitionId] = []
        """Heap of the copies that wait, and of some that do so no longer: thousands may wait, and each change of one
        must not look at all of them."""
        self._in_heap: set[PartitionId] = set()
        self._copies = 0
        """Fetched partitions that are being moved here."""
        self._fetched: dict[PartitionId, FollowedPartition] = {}
        self._fetchers: dict[int, ReplicaFetcher] = {}
        self._suspected: set[PartitionId] = set()
        """The leaders of these partitions were asked to verify what they send."""
        self._questions, self._tasks = Tasks(), Tasks()
        self.is_active = False

    def refresh(self, partition: Partition | None, placed: PartitionReplicas) -> None:
        """A partition was placed, changed its role, or is gone."""
        is_followed = partition is not None and not partition.is_leader and partition.failure is None
        if is_followed and self.is_active and placed.leader not in (NO_LEADER, self._identity().broker_id):
            assert partition is not None
            self._held[placed.id] = partition
        else:
            self._held.pop(placed.id, None)
        known = self._fetched.get(placed.id)
        if known is not None:
            if self._is_right(known, placed):
                known.is_returning = self._is_returning(known.partition, placed)
                self._fetchers[known.leader_id].touch(known.id)
            else:
                self._end(known)
        if placed.id in self._held and placed.id not in self._fetched:
            if not self._is_added(placed):
                self._start(self._held[placed.id], placed)
            elif placed.id not in self._in_heap:
                self._in_heap.add(placed.id)
                heappush(self._waiting, placed.id)
        self._start_copies()

    def _is_right(self, known: FollowedPartition, placed: PartitionReplicas) -> bool:
        return (
            self._held.get(placed.id) is known.partition
            and known.leader_id == placed.leader
            and known.is_added == self._is_added(placed)
        )

    def _is_added(self, placed: PartitionReplicas) -> bool:
        return self._identity().broker_id in placed.adding

    def _is_returning(self, partition: Partition, placed: PartitionReplicas) -> bool:
        """Whether this broker has left the in-sync replicas, and they are enough without it."""
        is_outside = self._identity().broker_id not in placed.isr and not self._is_added(placed)
        return is_outside and placed.is_isr_sufficient(partition.config.insync_replicas_min)

    def _end(self, known: FollowedPartition) -> None:
        del self._fetched[known.id]
        self._copies -= known.is_added
        fetcher = self._fetchers[known.leader_id]
        fetcher.remove(known.id)
        if not len(fetcher):
            del self._fetchers[known.leader_id]
            self._tasks.spawn(fetcher.stop())

    def _over(self, known: FollowedPartition) -> None:
        if self._fetched.get(known.id) is known:
            self._held.pop(known.id, None)
            self._end(known)
            self._start_copies()

    def forget(self, partition: PartitionId) -> None:
        """The partition was deleted."""
        self._held.pop(partition, None)
        if partition in self._fetched:
            self._end(self._fetched[partition])
        self._start_copies()

    def _start_copies(self) -> None:
        """Start to fetch copies that wait, as far as the limit allows."""
        while self._waiting and self._copies < self._copies_max:
            partition_id = heappop(self._waiting)
            self._in_heap.discard(partition_id)
            partition = self._held.get(partition_id)
            placed = self._catalog.cluster.find_partition(partition_id)
            if partition is not None and placed is not None and partition_id not in self._fetched:
                self._start(partition, placed)

    def _start(self, partition: Partition, placed: PartitionReplicas) -> None:
        followed = FollowedPartition(
            partition,
            placed.leader,
            self._runtime,
            self._lower_recovery_point,
            is_added=self._is_added(placed),
        )
        followed.is_returning = self._is_returning(partition, placed)
        followed.on_corrupt = self._suspect_leader
        self._fetched[followed.id] = followed
        self._copies += followed.is_added
        if placed.leader not in self._fetchers:
            self._fetchers[placed.leader] = ReplicaFetcher(
                self._links, placed.leader, self._identity, self.throttles, self._runtime.meters, self._over
            )
        self._fetchers[placed.leader].add(followed)

    def _suspect_leader(self, followed: FollowedPartition, offset: int) -> None:
        """The leader sends a damaged batch: it trusts what it has written itself. Let it read that back; not often."""
        if followed.id not in self._suspected:
            self._suspected.add(followed.id)
            self._questions.spawn(self._ask_leader(followed, offset))

    async def _ask_leader(self, followed: FollowedPartition, offset: int) -> None:
        wanted = WantedChecksum(followed.id, followed.partition.leader_epoch, offset, TO_NEXT_END)
        with suppress(BrokerError):  # a leader that finds damage repairs it
            await ask_checksum(self._links, followed.leader_id, wanted)
        await asyncio.sleep(SUSPECT_S)
        self._suspected.discard(followed.id)

    def brokers_changed(self) -> None:
        """A leader may be reachable again."""
        for fetcher in self._fetchers.values():
            fetcher.wake()

    def lag_of(self, partition: PartitionId) -> int:
        """Committed records that a followed partition lacks, as far as this broker knows; 0 for any other."""
        found = self._fetched.get(partition)
        return 0 if found is None else found.lag

    def progress(self) -> list[CopyProgress]:
        """The moves to this broker."""
        found = []
        for partition_id, partition in sorted(self._held.items()):
            placed = self._catalog.cluster.find_partition(partition_id)
            if placed is None or not self._is_added(placed):
                continue
            one = self._fetched.get(partition_id)
            found.append(
                CopyProgress(
                    partition.topic,
                    partition.index,
                    placed.leader,
                    one is not None,
                    partition.log.size(),
                    0 if one is None else one.lag,
                    0.0 if one is None else one.bytes_per_s,
                )
            )
        return found

    async def stop(self) -> None:
        self.is_active = False
        fetchers, self._fetchers = self._fetchers, {}
        self._held.clear()
        self._fetched.clear()
        self._waiting.clear()
        self._in_heap.clear()
        self._copies = 0
        for fetcher in fetchers.values():
            await fetcher.stop()
        await self._questions.stop()
        await self._tasks.finish()
