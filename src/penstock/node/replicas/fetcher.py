"""Copies all partitions that this broker follows from one leader, over the link to it, in a fetch session.

A Fetch names the partitions that have changed since the one before, and brings what is new in all of them; the leader
serves them in turn, so that a large partition does not starve small ones. One Fetch waits at the leader. Another one is
sent only to name something meanwhile, which ends the wait of the first. Partitions that are being added or catch up
share a limit of bytes per second. While it is used up, a Fetch removes them from the session; otherwise it names only a
few of them, because in-sync replicas, which commits wait for, are in the same responses.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import NamedTuple

from penstock.core.errors import BrokerError
from penstock.core.model import PartitionId
from penstock.core.replication.fetches import ReplicaFetch, ReplicaIdentity, ReplicatedBatches
from penstock.node.peers.links import PeerLinks
from penstock.node.peers.peer_calls import SessionLost, decode_replica_fetch, replica_fetch_request
from penstock.node.replicas.fetch_session import FetchFlight, FetchSession
from penstock.node.replicas.followed import RETRY_S, FollowedPartition
from penstock.node.replicas.throttle import Allowance, Throttle, Throttles
from penstock.node.runtime.meters import Meters
from penstock.node.runtime.tasks import Tasks
from penstock.wire.kafka import messages

WAIT_MS = 500
"""How long the leader waits for records before it answers with none."""
TIMEOUT_MS = 10_000
"""How long the leader may take beyond that."""
FLIGHTS_MAX = 2
REVIEW_S = 0.5
"""All partitions are compared with what the leader knows this often: some changes are not announced."""
SESSION_S_MAX = 30.0
"""A session is replaced after this time, so that no disagreement about it lasts."""
PARTITION_BYTES_MAX = 2 << 20
RESPONSE_BYTES_MAX = 2 << 20
"""Without those of throttled partitions."""
PARTITIONS_MAX = 1_000
"""Partitions that one Fetch names; the others are named by the next one."""

_Outcome = messages.FetchResponse | BrokerError


class _News(NamedTuple):
    """What the next Fetch tells the leader."""

    named: list[ReplicaFetch]
    forgotten: list[PartitionId]
    throttled_bytes: int
    """How much of the answer is for throttled partitions."""
    wait_s: float | None
    """When there may be more to tell; None if that is announced."""


class ReplicaFetcher:
    """The fetches from one leader. Runs while there is something to fetch; `ended` gets partitions that cannot be
    followed any more."""

    def __init__(
        self,
        links: PeerLinks,
        leader_id: int,
        identity: Callable[[], ReplicaIdentity],
        throttles: Throttles,
        meters: Meters,
        ended: Callable[[FollowedPartition], None],
    ) -> None:
        self._ended = ended
        self._meters = meters
        self._links = links
        self._leader_id = leader_id
        self._identity = identity
        self._throttles = throttles
        self._followed: dict[PartitionId, FollowedPartition] = {}
        self._changed: dict[PartitionId, None] = {}
        """Partitions that may have to be named or forgotten, in the order in which they changed."""
        self._loop = asyncio.get_running_loop()
        self._session = FetchSession(self._loop.time())
        self._reviewed_s = self._loop.time()
        self._flights = 0
        self._arrived: deque[tuple[FetchFlight, _Outcome]] = deque()
        self._wake = asyncio.Event()
        self._tasks = Tasks()
        self._is_running = False

    def __len__(self) -> int:
        return len(self._followed)

    def add(self, followed: FollowedPartition) -> None:
        self._followed[followed.id] = followed
        self.wake()
        self.touch(followed.id)
        if not self._is_running:
            self._is_running = True
            self._tasks.spawn(self._run())

    def remove(self, partition: PartitionId) -> None:
        self._followed.pop(partition, None)
        self.touch(partition)

    def touch(self, partition: PartitionId) -> None:
        """The role or the place of a partition has changed."""
        self._changed[partition] = None
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
                if self._arrived:
                    await self._take(*self._arrived.popleft())
                else:
                    await self._pause(self._send())
        finally:
            self._is_running = False

    async def _pause(self, wait_s: float | None) -> None:
        if self._wake.is_set():
            return
        if wait_s is None:
            await self._wake.wait()
            return
        try:
            async with asyncio.timeout(wait_s):
                await self._wake.wait()
        except TimeoutError:
            return

    # -- requests

    def _send(self) -> float | None:
        """Send a Fetch if there is something to name, or if none waits at the leader. Returns how long to wait before
        there may be something to name; None if that is announced."""
        now_s = self._loop.time()
        if not self._flights and now_s - self._session.began_s > SESSION_S_MAX:
            self._begin_session()
        if self._flights >= FLIGHTS_MAX or not self._session.is_open:
            return None
        if now_s - self._reviewed_s >= REVIEW_S:
            self._reviewed_s = now_s
            self._changed.update(dict.fromkeys(self._followed))
        news = self._news(now_s)
        if news.named or news.forgotten or (not self._flights and len(self._session)):
            self._transmit(self._session.begin(news.named, news.forgotten), news.throttled_bytes)
        return news.wait_s

    def _begin_session(self) -> None:
        """Name all partitions again. Answers to requests of the session before are ignored."""
        self._session = FetchSession(self._loop.time())
        self._flights = 0
        self._changed.update(dict.fromkeys(self._followed))

    def _news(self, now_s: float) -> _News:
        named, forgotten, wait_s = list[ReplicaFetch](), list[PartitionId](), float("inf")
        allowances: dict[Throttle | None, Allowance] = {}
        for partition in list(self._changed):
            one = self._current(partition)
            if one is None:
                del self._changed[partition]
                if partition in self._session:
                    forgotten.append(partition)
                continue
            if len(named) == PARTITIONS_MAX:
                break
            throttle = self._throttles.of(one)
            allowance = allowances.get(throttle)
            if allowance is None and throttle is not None:
                allowance = allowances[throttle] = Allowance(throttle, now_s)
            delay_s = self._delay_s(one, allowance, now_s)
            bytes_max = 0
            if delay_s > 0:
                wait_s = min(wait_s, delay_s)
            else:
                bytes_max = PARTITION_BYTES_MAX if allowance is None else allowance.take(one)
            if not bytes_max:
                if partition in self._session:
                    forgotten.append(partition)
                continue
            del self._changed[partition]
            wanted = one.wanted(bytes_max)
            if not self._session.knows(wanted):
                named.append(wanted)
        throttled_bytes = sum(allowance.end() for allowance in allowances.values())
        return _News(named, forgotten, throttled_bytes, None if wait_s == float("inf") else wait_s)

    def _current(self, partition: PartitionId) -> FollowedPartition | None:
        """The partition if it is still followed."""
        one = self._followed.get(partition)
        if one is not None and one.is_over:
            self._ended(one)
            return None
        return one

    def _delay_s(self, one: FollowedPartition, allowance: Allowance | None, now_s: float) -> float:
        delay_s = max(one.retry_s - now_s, 0.0 if allowance is None else allowance.wait_s)
        return RETRY_S if delay_s <= 0 and not one.is_flushed else delay_s

    def _transmit(self, flight: FetchFlight, throttled_bytes: int) -> None:
        self._flights += 1
        self._meters.replica_fetches += 1
        request = replica_fetch_request(
            self._identity(),
            flight.named,
            flight.forgotten,
            session=(flight.session_id, flight.epoch),
            bytes_max=RESPONSE_BYTES_MAX + throttled_bytes,
            wait_ms=WAIT_MS,
        )
        self._links.send(
            self._leader_id, request, partial(self._arrive, flight), timeout_ms=WAIT_MS + TIMEOUT_MS
        )

    def _arrive(self, flight: FetchFlight, outcome: _Outcome) -> None:
        self._arrived.append((flight, outcome))
        self._wake.set()

    # -- answers

    async def _take(self, flight: FetchFlight, outcome: _Outcome) -> None:
        """Apply an answer. Waits until everything that it brought is durable, which the next Fetch tells the leader."""
        if flight.session is not self._session:
            return
        self._flights -= 1
        try:
            if isinstance(outcome, BrokerError):
                raise outcome
            session_id, answers = decode_replica_fetch(self._leader_id, outcome)
        except SessionLost:
            self._begin_session()
            return
        except BrokerError as error:
            self._begin_session()
            for one in self._followed.values():
                one.delay(error)
            return
        self._session.id = session_id
        await self._apply(flight, answers)
        if not session_id:  # the leader has no sessions
            self._begin_session()

    async def _apply(self, flight: FetchFlight, answers: Mapping[PartitionId, ReplicatedBatches]) -> None:
        applied, throttles, began_s = list[FollowedPartition](), set[Throttle](), self._loop.time()
        for partition, got in answers.items():
            one, wanted = self._followed.get(partition), flight.session.answered(flight, partition)
            if one is None or wanted is None:
                continue
            if got.error is not None:
                flight.session.drop(partition)
            throttle = self._throttles.of(one)
            if throttle is not None and len(got.records):
                throttle.limit.spend(len(got.records))
                throttles.add(throttle)
            applied.append(one)
            await one.apply(wanted, got)
        # All flushes run together, and most fetches need none: no task for each partition before this point.
        unflushed = [one for one in applied if not one.is_flushed and self._followed.get(one.id) is one]
        if unflushed:
            await asyncio.gather(*(one.flushed() for one in unflushed))
        now_s = self._loop.time()
        for throttle in throttles:
            throttle.rest(now_s - began_s, now_s)
        for one in applied:
            if self._followed.get(one.id) is one:
                self._changed[one.id] = None
