"""Appends single records, for doors whose clients send messages instead of batches. Speaks no protocol.

Records that arrive for one partition in one loop iteration are appended as one batch, so that pipelined messages share
one write and one flush. A rejected batch is retried record by record, so that only the invalid records fail.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import NamedTuple

from penstock.core.access import Operation
from penstock.core.errors import BrokerError, Offline, Refused, TopicExists, UnknownTopic
from penstock.core.limits import BATCH_HEADER_BYTES, RECORDS_PER_DOOR_BATCH_MAX
from penstock.core.model import Acks, NewRecord, check_topic_name
from penstock.core.records.build import build_batch
from penstock.core.records.murmur2 import partition_of
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.slices import Sliced
from penstock.node.runtime.tasks import Tasks
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.produce import AppendedBatch, Hold, check_written_by_clients
from penstock.node.waist.routes import Routes

RECORD_EXTRA_BYTES_MAX = 36
"""Maximum overhead of one record: lengths and deltas."""

HEADER_EXTRA_BYTES_MAX = 10

APPEND_UNITS = 8
RECORDS_PER_UNIT = 2
"""Cost of an append: units per batch, and records per additional unit."""


class Published(NamedTuple):
    """Partition and offset of a record that is as durable as its topic requires."""

    partition: int
    offset: int


Settled = Callable[[Published | BrokerError], None]
"""Called once per record, in offset order within a partition."""


class _AwaitingTopic(NamedTuple):
    """A record that waits for its topic to be created."""

    session: Session
    record: NewRecord
    settled: Settled
    partition: int | None
    hold: Hold
    release_hold: Callable[[], None]


class _PendingBatch:
    """The records of one loop iteration for one partition."""

    __slots__ = ("partition", "records", "settled")

    def __init__(self, partition: Partition) -> None:
        self.partition = partition
        self.records: list[NewRecord] = []
        self.settled: list[Settled] = []


class Publisher:
    """Appends records to any topic. One per door."""

    def __init__(self, broker: Broker, authorization: Authorization, routes: Routes) -> None:
        self._broker = broker
        self._authorization = authorization
        self._find = routes.partition
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks()
        self._pending: dict[Partition, _PendingBatch] = {}
        self._unsent: deque[_PendingBatch] = deque()
        """Batches of earlier iterations, in order; one sliced work appends them."""
        self._is_sending = False
        self._next_keyless: dict[str, int] = {}
        self._turn_keyless: dict[str, int] = {}
        self._awaiting_topic: dict[str, list[_AwaitingTopic]] = {}

    def publish(
        self,
        session: Session,
        topic: str,
        record: NewRecord,
        settled: Settled,
        partition: int | None,
        hold: Hold,
    ) -> None:
        """Append to the given partition, else to that of the key, else round robin.

        A missing topic is created if the settings allow; meanwhile `hold` keeps later requests of the client from
        starting. `settled` is called once the record is durable, or with the error; never before this returns.
        """
        waiting = self._awaiting_topic.get(topic)
        if waiting is not None:
            waiting.append(_AwaitingTopic(session, record, settled, partition, hold, hold()))
            return
        try:
            if self._authorization.authorizer is not None:
                self._authorization.authorize_topic(session, Operation.WRITE, topic)
            if self._broker.catalog.find(topic) is None:
                self._publish_to_new(session, topic, record, settled, partition, hold)
            else:
                self._add(self._choose(topic, record.key, partition), record, settled)
        except BrokerError as error:
            self._loop.call_soon(settled, error)

    def publish_all(
        self,
        session: Session,
        topic: str,
        records: Sequence[NewRecord],
        settled: Callable[[list[Published | BrokerError]], None],
        partition: int | None,
        hold: Hold,
    ) -> None:
        """Publish the records of one request, in order; `settled` gets one outcome per record, all at once."""
        outcomes: list[Published | BrokerError] = [UnknownTopic("")] * len(records)
        left = len(records)
        if not left:
            self._loop.call_soon(settled, outcomes)

        def settle(index: int, outcome: Published | BrokerError) -> None:
            nonlocal left
            outcomes[index] = outcome
            left -= 1
            if not left:
                settled(outcomes)

        for index, record in enumerate(records):
            self.publish(
                session,
                topic,
                record,
                lambda outcome, index=index: settle(index, outcome),  # type: ignore[misc]
                partition,
                hold,
            )

    # -- partitioning

    def _choose(self, topic: str, key: bytes | None, index: int | None) -> Partition:
        if index is None:
            count = self._broker.catalog.topic(topic).partition_count
            if count == 1:
                index = 0
            else:
                index = self._keyless(topic, count) if key is None else partition_of(key, count)
        partition = self._find(topic, index)
        check_written_by_clients(partition)
        return partition

    def _keyless(self, topic: str, count: int) -> int:
        """Records without a key are distributed round robin; those of one loop iteration stay together."""
        index = self._turn_keyless.get(topic)
        if index is None:
            index = self._next_keyless.get(topic, 0) % count
            self._next_keyless[topic] = index + 1
            self._turn_keyless[topic] = index
        return index

    # -- topic creation

    def _publish_to_new(
        self,
        session: Session,
        topic: str,
        record: NewRecord,
        settled: Settled,
        partition: int | None,
        hold: Hold,
    ) -> None:
        """Create the topic if the caller and the settings allow it; raises otherwise."""
        check_topic_name(topic)
        if not self._broker.settings.auto_create_topics:
            raise UnknownTopic(f"there is no topic {topic!r}, and auto_create_topics is off")
        self._authorization.authorize_creation(session, topic)
        self._awaiting_topic[topic] = [_AwaitingTopic(session, record, settled, partition, hold, hold())]
        self._tasks.spawn(self._create(topic), lambda error: self._not_created(topic, error))

    async def _create(self, topic: str) -> None:
        failure: BrokerError | None = None
        try:
            await self._broker.auto_create_topic(topic)
        except TopicExists:
            failure = None
        except BrokerError as error:
            failure = error
        for one in self._awaiting_topic.pop(topic):
            if failure is not None:
                one.settled(failure)
            else:
                self.publish(one.session, topic, one.record, one.settled, one.partition, one.hold)
            one.release_hold()

    def _not_created(self, topic: str, error: BaseException) -> None:
        """The creation crashed: fail the waiting records; the next publish retries."""
        for one in self._awaiting_topic.pop(topic, ()):
            one.settled(Offline(f"topic {topic!r} could not be created: {error!r}"))
            one.release_hold()

    # -- batches

    def _add(self, partition: Partition, record: NewRecord, settled: Settled) -> None:
        pending = self._pending.get(partition)
        if pending is None:
            if not self._pending:
                self._loop.call_soon(self._send)
            pending = self._pending[partition] = _PendingBatch(partition)
        pending.records.append(record)
        pending.settled.append(settled)

    def _send(self) -> None:
        """Append the records of this iteration, after those left from earlier ones."""
        self._unsent += self._pending.values()
        self._pending = {}
        self._turn_keyless.clear()
        if not self._is_sending:
            self._is_sending = True
            self._broker.runtime.slices.go(self._send_pending(), self._pending_sent)

    def _send_pending(self) -> Sliced[None]:
        while self._unsent:
            pending = self._unsent.popleft()
            bytes_max = pending.partition.config.message_bytes_max
            for start, stop in _cut(pending.records, bytes_max):
                now_ms = self._broker.runtime.clock.now_ms()
                self._append(
                    pending.partition, pending.records[start:stop], pending.settled[start:stop], now_ms
                )
                yield APPEND_UNITS + (stop - start) // RECORDS_PER_UNIT

    def _pending_sent(self, outcome: object) -> None:
        self._is_sending = False
        if self._unsent:  # a defect ended the work: do not leave the others waiting
            self._send()

    def _append(
        self, partition: Partition, records: list[NewRecord], settled: list[Settled], now_ms: int
    ) -> None:
        try:
            appended = partition.append(memoryview(build_batch(records, now_ms)), Acks.ALL)
            written = AppendedBatch(partition, appended, Acks.ALL)
        except Refused as error:
            if len(records) == 1:
                settled[0](error)
                return
            for record, one in zip(records, settled, strict=True):
                self._append(partition, [record], [one], now_ms)
        except BrokerError as error:
            for one in settled:
                one(error)
        else:
            written.when_acknowledged(_on_acknowledged(partition.index, written.base_offset, settled))


def _on_acknowledged(
    partition: int, base_offset: int, settled: list[Settled]
) -> Callable[[BrokerError | None], None]:
    """The callback of a batch: settles each of its records."""

    def acknowledged(error: BrokerError | None) -> None:
        if error is not None:
            for one in settled:
                one(error)
            return
        for offset, one in enumerate(settled, base_offset):
            one(Published(partition, offset))

    return acknowledged


def _cut(records: list[NewRecord], bytes_max: int) -> list[tuple[int, int]]:
    """Split records into runs that fit into one batch each. A record that is too large is a run of its own."""
    cuts = []
    start, size = 0, BATCH_HEADER_BYTES
    for index, record in enumerate(records):
        record_bytes = _bytes_of(record)
        is_full = size + record_bytes > bytes_max or index - start >= RECORDS_PER_DOOR_BATCH_MAX
        if is_full and index > start:
            cuts.append((start, index))
            start, size = index, BATCH_HEADER_BYTES
        size += record_bytes
    cuts.append((start, len(records)))
    return cuts


def _bytes_of(record: NewRecord) -> int:
    size = RECORD_EXTRA_BYTES_MAX + len(record.key or b"") + len(record.value or b"")
    for name, content in record.headers:
        size += HEADER_EXTRA_BYTES_MAX + len(name.encode()) + len(content or b"")
    return size
