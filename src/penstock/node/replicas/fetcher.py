"""Copies all partitions that this broker follows from one leader: one Fetch at a time, over the link to it.

Every Fetch names all of them, in rotating order, so that a large partition does not starve small ones. Partitions that
are being added share a limit of bytes per second; while it is used up, only the others are fetched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from penstock.core.errors import BrokerError
from penstock.core.model import PartitionId
from penstock.core.replication.fetches import ReplicaIdentity
from penstock.core.replication.rate_limit import RateLimit
from penstock.node.peers.links import PeerLinks
from penstock.node.peers.peer_calls import fetch_as_replica
from penstock.node.replicas.followed import RETRY_S, FollowedPartition
from penstock.node.runtime.meters import Meters
from penstock.node.runtime.tasks import Tasks

WAIT_MS = 500
"""How long the leader waits for records before it answers with none."""
JOIN_S = 0.02
"""A Fetch that waits for records is given up after this time if a partition joins: nothing of it is committed before it
is fetched. Partitions that join together share the next one."""
WAIT_MS_MIN = 10
TIMEOUT_MS = 10_000
"""How long the leader may take beyond that."""
PARTITION_BYTES_MAX = 2 << 20
RESPONSE_BYTES_MAX = 8 << 20
PARTITION_BYTES_MIN = 64 << 10
"""Bytes per fetch, whatever the limit of bytes per second: smaller ones would cost more than they limit."""
PARTITIONS_MAX = 1_000
"""Partitions in one Fetch; the others have their turn with the next one."""


class Throttle:
    """The limit of bytes per second that all fetchers of a broker share."""

    def __init__(self, rate: Callable[[], int]) -> None:
        self.rate = rate
        self.limit = RateLimit()
        self.waits = 0
        """How often a copy had to wait."""

    def wait_s(self, now_s: float) -> float:
        return self.limit.wait_s(self.rate(), now_s)

    @property
    def fetch_bytes_max(self) -> int:
        """Bytes of one fetch, so that the limit is not exceeded by seconds at once."""
        rate = self.rate()
        return (
            PARTITION_BYTES_MAX
            if rate <= 0
            else max(PARTITION_BYTES_MIN, min(PARTITION_BYTES_MAX, rate // 4))
        )


class ReplicaFetcher:
    """The fetches from one leader. Runs while there is something to fetch; `ended` gets partitions that cannot be
    followed any more."""

    def __init__(
        self,
        links: PeerLinks,
        leader_id: int,
        identity: Callable[[], ReplicaIdentity],
        throttle: Throttle,
        meters: Meters,
        ended: Callable[[FollowedPartition], None],
    ) -> None:
        self._ended = ended
        self._meters = meters
        self._links = links
        self._leader_id = leader_id
        self._identity = identity
        self._throttle = throttle
        self._followed: dict[PartitionId, FollowedPartition] = {}
        """In the order of the next Fetch."""
        self._loop = asyncio.get_running_loop()
        self._wake = asyncio.Event()
        self._poll: asyncio.Timeout | None = None
        """The Fetch that waits for records; it ends early when a partition joins."""
        self._polled_s = 0.0
        """When that Fetch was sent."""
        self._tasks = Tasks()
        self._is_running = False

    def __len__(self) -> int:
        return len(self._followed)

    def add(self, followed: FollowedPartition) -> None:
        self._followed[followed.id] = followed
        self.wake()
        if self._poll is not None and not self._poll.expired():  # it ends anyway once its time is over
            self._poll.reschedule(max(self._loop.time(), self._polled_s + JOIN_S))
        if not self._is_running:
            self._is_running = True
            self._tasks.spawn(self._run())

    def remove(self, partition: PartitionId) -> None:
        self._followed.pop(partition, None)
        self._wake.set()

    def wake(self) -> None:
        """Something has changed: do not wait any longer before the next attempt."""
        for one in self._followed.values():
            one.retry_s = 0.0
        self._wake.set()

    async def stop(self) -> None:
        self._followed.clear()
        await self._tasks.stop()

    async def _run(self) -> None:
        try:
            while self._followed:
                self._wake.clear()
                due, wait_s = self._due()
                if due:
                    await self._fetch(due, wait_s)
                else:
                    await self._pause(wait_s)
        finally:
            self._is_running = False

    def _due(self) -> tuple[list[FollowedPartition], float]:
        """The partitions to fetch now; if there are none, how long to wait."""
        now_s = self._loop.time()
        throttled_s = self._throttle.wait_s(now_s)
        due, wait_s = list[FollowedPartition](), RETRY_S
        self._throttle.waits += throttled_s > 0 and any(one.is_added for one in self._followed.values())
        for one in self._followed.values():
            delay_s = max(one.retry_s - now_s, throttled_s if one.is_added else 0.0)
            if delay_s <= 0 and one.is_flushed:
                due.append(one)
            elif delay_s > 0:
                wait_s = min(wait_s, delay_s)
        return due[:PARTITIONS_MAX], wait_s

    async def _pause(self, wait_s: float) -> None:
        try:
            async with asyncio.timeout(wait_s):
                await self._wake.wait()
        except TimeoutError:
            return

    async def _fetch(self, due: list[FollowedPartition], next_s: float) -> None:
        """One Fetch. Waits until everything that it brought is durable: its answer is what the next one reports. The
        other partitions have their turn after `next_s`."""
        added_bytes_max = self._throttle.fetch_bytes_max
        wanted = [one.wanted(added_bytes_max if one.is_added else PARTITION_BYTES_MAX) for one in due]
        is_whole = len(due) == len(self._followed)
        self._meters.replica_fetches += 1
        self._polled_s = self._loop.time()
        try:
            async with asyncio.timeout(None) as self._poll:
                answers = await fetch_as_replica(
                    self._links,
                    self._leader_id,
                    self._identity(),
                    wanted,
                    bytes_max=max(added_bytes_max, RESPONSE_BYTES_MAX if self._throttle.rate() <= 0 else 0),
                    # The leader must not wait for these while others have their turn soon.
                    wait_ms=WAIT_MS if is_whole else max(WAIT_MS_MIN, round(next_s * 1000)),
                    timeout_ms=TIMEOUT_MS,
                )
        except TimeoutError:
            return
        except BrokerError as error:
            for one in due:
                one.delay(error)
            return
        finally:
            self._poll = None
        if due[0].id in self._followed:
            self._followed[due[0].id] = self._followed.pop(due[0].id)
        read_bytes = sum(len(answers[one.id].records) for one in due if one.is_added)
        self._throttle.limit.spend(read_bytes)
        for one, request in zip(due, wanted, strict=True):
            if self._followed.get(one.id) is one:
                await one.apply(request, answers[one.id])
        # All flushes run together, and most fetches need none: no task for each partition before this point.
        unflushed = [one for one in due if not one.is_flushed and self._followed.get(one.id) is one]
        if unflushed:
            await asyncio.gather(*(one.flushed() for one in unflushed))
        for one in due:
            if one.is_over and self._followed.get(one.id) is one:
                self._ended(one)
