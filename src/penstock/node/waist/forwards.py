"""Publishes records to partitions that other brokers lead: batches, sends them over links, retries, keeps the order.

One batch per partition is in flight; what arrives meanwhile forms the next one. So records of one connection are
appended in order whatever is retried, and no batch overtakes one that was refused. A batch is sent again only if it
changed nothing (see `leaders`): if its outcome is unknown, its publishers are told so.

Memory is bounded: a partition with too many waiting bytes holds the connections that publish to it, and over the limit
of the broker records fail with Throttled.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

from penstock.core.errors import BrokerError, PeerUnavailable, Refused, Throttled, UnknownTopic
from penstock.core.limits import (
    FORWARD_BYTES_MAX,
    FORWARD_MS_MAX,
    FORWARD_PARTITION_BYTES_MAX,
    RECORDS_PER_DOOR_BATCH_MAX,
)
from penstock.core.machines.catalog.events import Topic
from penstock.core.machines.cluster.values import NO_LEADER
from penstock.core.model import NewRecord, PartitionId
from penstock.core.records.build import build_batch
from penstock.node.broker import Broker
from penstock.node.peers.peer_calls import RemoteAppend, send_batch
from penstock.node.remote.leaders import UNCHANGED, Leaders
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.slices import Sliced
from penstock.node.waist.produce import Hold
from penstock.node.waist.record_batches import (
    Settled,
    append_records,
    append_units,
    cut_records,
    settle_all,
    settle_appended,
)

SHORT_RECORDS = 16
"""A batch of so few records is built at once; slicing would cost more than it."""
RECORDS_CUT_PER_UNIT = 16
"""Cost of queueing: records per unit."""
REMOTES_SWEEP_MIN = 1_024
"""Partitions remembered before those of deleted topics are looked for."""


class _Run(NamedTuple):
    """Records that fit into one batch."""

    records: list[NewRecord]
    settled: list[Settled]
    size_bytes: int
    deadline_s: float
    is_part: bool = False
    """Part of a batch that the leader rejected: merged with others it would be rejected again."""


class _Flight:
    """The batch of a partition that is being sent, and its attempts."""

    __slots__ = ("attempt", "batch", "broker_id", "last", "run")

    def __init__(self, run: _Run, batch: memoryview) -> None:
        self.run = run
        self.batch = batch
        self.attempt = 0
        self.broker_id = NO_LEADER
        self.last: BrokerError | None = None


class RemotePartition:
    """A partition that another broker leads, and the records that wait for it."""

    __slots__ = (
        "_forwards",
        "flight",
        "held",
        "id",
        "index",
        "is_internal",
        "is_ready",
        "topic",
        "waiting",
        "waiting_bytes",
    )

    def __init__(self, forwards: Forwards, topic: Topic, index: int) -> None:
        self._forwards = forwards
        self.topic = topic.name
        self.index = index
        self.id = PartitionId(topic.id, index)
        self.is_internal = topic.internal
        self.flight: _Flight | None = None
        self.is_ready = False
        """Whether its next batch is about to be sent."""
        self.waiting: deque[_Run] = deque()
        self.waiting_bytes = 0
        """Of all records that are not settled, in flight or not."""
        self.held: dict[Hold, Callable[[], None]] = {}
        """The connections that are held until less is waiting, and how to release each."""

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def is_busy(self) -> bool:
        """Whether records wait: later ones must queue behind them, wherever the partition is led by then."""
        return self.flight is not None or bool(self.waiting)

    def add(self, records: list[NewRecord], settled: list[Settled]) -> Sliced[None]:
        """Queue records, behind all earlier ones."""
        yield from self._forwards.queue(self, records, settled)


class Forwards:
    """The publishes of one broker to others. Shared by all doors."""

    def __init__(self, broker: Broker, leaders: Leaders) -> None:
        self._broker = broker
        self._catalog = broker.catalog
        self._find_led = broker.find_led
        self._leaders = leaders
        self._loop = asyncio.get_running_loop()
        self._meter = broker.runtime.meters.forwards
        self._remotes: dict[tuple[str, int], RemotePartition] = {}
        self._sweep_at = REMOTES_SWEEP_MIN
        self._ready: deque[RemotePartition] = deque()
        """Partitions whose next batch can be built and sent; one sliced work does that."""
        self._is_sending = False

    def find(self, topic: str, index: int) -> Partition | RemotePartition:
        """Where a record for this partition goes now. Raises UnknownTopic."""
        remote = self._remotes.get((topic, index))
        if remote is not None and remote.is_busy:
            return remote
        partition = self._find_led(topic, index)
        return self.elsewhere(topic, index) if partition is None else partition

    def elsewhere(self, topic: str, index: int) -> RemotePartition:
        """The same for a partition that is not led here."""
        found = self._catalog.topic(topic)
        remote = self._remotes.get((topic, index))
        if remote is None or (remote.id.topic_id != found.id and not remote.is_busy):
            if len(self._remotes) >= self._sweep_at:
                self._forget_deleted()
            remote = self._remotes[topic, index] = RemotePartition(self, found, index)
        return remote

    def _forget_deleted(self) -> None:
        find = self._catalog.find_by_id
        self._remotes = {
            place: one
            for place, one in self._remotes.items()
            if one.is_busy or find(one.id.topic_id) is not None
        }
        self._sweep_at = max(REMOTES_SWEEP_MIN, 2 * len(self._remotes))

    def hold_back(self, target: Partition | RemotePartition, hold: Hold) -> None:
        """Hold a connection that publishes faster than the leader elsewhere accepts, until less is waiting."""
        if not isinstance(target, RemotePartition) or target.waiting_bytes <= FORWARD_PARTITION_BYTES_MAX:
            return
        if hold not in target.held:
            target.held[hold] = hold()

    # -- queue

    def queue(
        self, remote: RemotePartition, records: list[NewRecord], settled: list[Settled]
    ) -> Sliced[None]:
        """Add records of one turn to those that wait, within the limit."""
        deadline_s = self._loop.time() + FORWARD_MS_MAX / 1000
        for start, stop, size_bytes in cut_records(records, self._batch_bytes_max(remote)):
            some = settled[start:stop]
            if self._meter.waiting_bytes + size_bytes > FORWARD_BYTES_MAX:
                full = (
                    f"{self._meter.waiting_bytes} bytes wait for other brokers; nothing was sent, try again"
                )
                settle_all(some, Throttled(f"{remote}: {full}"))
            else:
                remote.waiting.append(_Run(records[start:stop], some, size_bytes, deadline_s))
                remote.waiting_bytes += size_bytes
                self._meter.waiting_bytes += size_bytes
            yield 1 + (stop - start) // RECORDS_CUT_PER_UNIT
        self._wake(remote)

    def _batch_bytes_max(self, remote: RemotePartition) -> int:
        try:
            return self._catalog.config(remote.topic).message_bytes_max
        except UnknownTopic:
            return FORWARD_PARTITION_BYTES_MAX  # deleted meanwhile: the first attempt says so

    def _wake(self, remote: RemotePartition) -> None:
        """Send the next batch of a partition, unless one is in flight."""
        if remote.flight is not None or not remote.waiting or remote.is_ready:
            return
        if (
            not self._is_sending
            and len(remote.waiting) == 1
            and len(remote.waiting[0].records) <= SHORT_RECORDS
        ):
            self._send_next(remote)
            return
        remote.is_ready = True
        self._ready.append(remote)
        if not self._is_sending:
            self._go()

    def _go(self) -> None:
        self._is_sending = True
        self._broker.runtime.slices.go(self._send_ready(), self._ready_sent)

    def _send_ready(self) -> Sliced[None]:
        while self._ready:
            remote = self._ready.popleft()
            remote.is_ready = False
            yield append_units(self._send_next(remote))

    def _send_next(self, remote: RemotePartition) -> int:
        """Build and send the next batch of a partition, if there is one; returns how many records it has."""
        run = self._next_run(remote)
        if run is None:
            return 0
        batch = memoryview(build_batch(run.records, self._broker.runtime.clock.now_ms()))
        remote.flight = _Flight(run, batch)
        self._attempt(remote, remote.flight)
        return len(run.records)

    def _ready_sent(self, outcome: object) -> None:
        self._is_sending = False
        if self._ready:  # a defect ended the work: do not leave the others waiting
            self._go()

    def _next_run(self, remote: RemotePartition) -> _Run | None:
        """The records of the next batch: all that wait, as far as they fit. Records that waited too long fail here:
        whatever was in flight before them had an earlier deadline."""
        now_s = self._loop.time()
        while remote.waiting and remote.waiting[0].deadline_s <= now_s:
            late = remote.waiting.popleft()
            text = f"{remote}: earlier records were not acknowledged within {FORWARD_MS_MAX} ms, nothing was sent"
            self._settle(remote, late, PeerUnavailable(text))
        if not remote.waiting:
            return None
        first = remote.waiting.popleft()
        if first.is_part or not remote.waiting:
            return first
        records, settled, size_bytes = list(first.records), list(first.settled), first.size_bytes
        bytes_max = self._batch_bytes_max(remote)
        while remote.waiting:
            following = remote.waiting[0]
            if (
                following.is_part
                or size_bytes + following.size_bytes > bytes_max
                or len(records) + len(following.records) > RECORDS_PER_DOOR_BATCH_MAX
            ):
                break
            remote.waiting.popleft()
            records += following.records
            settled += following.settled
            size_bytes += following.size_bytes
        return _Run(records, settled, size_bytes, first.deadline_s)

    # -- send

    def _attempt(self, remote: RemotePartition, flight: _Flight) -> None:
        """Send the batch to whoever leads the partition now."""
        try:
            broker_id = self._leaders.find(remote.id, flight.last)
        except BrokerError as error:
            self._end(remote, flight, error)
            return
        flight.broker_id = broker_id
        if broker_id == self._leaders.node_id:
            self._append_here(remote, flight)
            return
        left_ms = round((flight.run.deadline_s - self._loop.time()) * 1000)
        self._meter.batches += 1
        send_batch(
            self._leaders.links,
            broker_id,
            remote.id,
            flight.batch,
            partial(self._answered, remote, flight),
            timeout_ms=max(1, left_ms),
        )

    def _append_here(self, remote: RemotePartition, flight: _Flight) -> None:
        """The partition was moved to this broker while its records waited."""
        run = flight.run
        try:
            partition = self._broker.partition(remote.id.topic_id, remote.index)
            now_ms = self._broker.runtime.clock.now_ms()
            moved = append_records(partition, run.records, run.settled, now_ms)
        except BrokerError as error:
            self._answered(remote, flight, error)
            return
        if moved is not None:
            self._answered(remote, flight, moved)
        else:
            self._landed(remote, run)

    def _answered(
        self, remote: RemotePartition, flight: _Flight, outcome: RemoteAppend | BrokerError
    ) -> None:
        run = flight.run
        if isinstance(outcome, RemoteAppend):
            self._meter.records += len(run.records)
            settle_appended(run.settled, remote.index, outcome.base_offset)
            self._landed(remote, run)
        elif isinstance(outcome, UNCHANGED) and not self._leaders.links.is_closed:
            self._retry(remote, flight, outcome)
        elif isinstance(outcome, Refused) and len(run.records) > 1:
            self._split(remote, run)
        else:
            self._end(remote, flight, outcome)

    def _retry(self, remote: RemotePartition, flight: _Flight, error: BrokerError) -> None:
        flight.last = error
        try:
            is_same = self._leaders.find(remote.id, error) == flight.broker_id
        except BrokerError as final:
            self._end(remote, flight, final)
            return
        pause_s = self._leaders.pause_s(flight.attempt, is_same=is_same)
        if self._loop.time() + pause_s >= flight.run.deadline_s:
            self._end(remote, flight, self._leaders.final_error(remote.id, flight.broker_id, error))
            return
        flight.attempt += 1
        self._meter.retries += 1
        self._loop.call_later(pause_s, self._attempt, remote, flight)

    def _split(self, remote: RemotePartition, run: _Run) -> None:
        """The leader rejected the batch because of some record in it: send halves, so that only invalid records fail
        and a few of them cost few calls."""
        middle, half_bytes = len(run.records) // 2, run.size_bytes // 2
        first = _Run(run.records[:middle], run.settled[:middle], half_bytes, run.deadline_s, is_part=True)
        rest_bytes = run.size_bytes - half_bytes
        second = _Run(run.records[middle:], run.settled[middle:], rest_bytes, run.deadline_s, is_part=True)
        remote.flight = None
        remote.waiting.extendleft((second, first))
        self._wake(remote)

    def _end(self, remote: RemotePartition, flight: _Flight, error: BrokerError) -> None:
        run = flight.run
        settle_all(run.settled, error)
        self._landed(remote, run)

    # -- settled

    def _settle(self, remote: RemotePartition, run: _Run, error: BrokerError) -> None:
        settle_all(run.settled, error)
        self._return_bytes(remote, run)

    def _landed(self, remote: RemotePartition, run: _Run) -> None:
        """A batch is settled: the next one can go."""
        remote.flight = None
        self._return_bytes(remote, run)
        self._wake(remote)

    def _return_bytes(self, remote: RemotePartition, run: _Run) -> None:
        remote.waiting_bytes -= run.size_bytes
        self._meter.waiting_bytes -= run.size_bytes
        if remote.held and remote.waiting_bytes <= FORWARD_PARTITION_BYTES_MAX // 2:
            held, remote.held = remote.held, {}
            for release_hold in held.values():
                release_hold()
