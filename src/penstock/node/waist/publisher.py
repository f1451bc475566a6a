"""Appends single records, for doors whose clients send messages instead of batches. Speaks no protocol.

Records that arrive for one partition in one loop iteration are appended as one batch, so that pipelined messages share
one write and one flush. A rejected batch is retried record by record, so that only the invalid records fail. Records
for partitions that other brokers lead go through `forwards`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from penstock.core.access import Operation
from penstock.core.errors import BrokerError, Offline, TopicExists, UnknownTopic
from penstock.core.model import NewRecord, check_topic_name
from penstock.core.records.murmur2 import partition_of
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.replicas.partition import Partition
from penstock.node.runtime.slices import Sliced
from penstock.node.runtime.tasks import Tasks
from penstock.node.waist.authorization import Authorization
from penstock.node.waist.produce import Hold, check_written_by_clients
from penstock.node.waist.record_batches import Published as Published
from penstock.node.waist.record_batches import (
    Settled,
    append_records,
    append_units,
    cut_records,
    settle_all,
)
from penstock.node.waist.routes import Routes

if TYPE_CHECKING:
    from penstock.node.waist.forwards import Forwards, RemotePartition


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

    def __init__(self, partition: Partition | RemotePartition) -> None:
        self.partition = partition
        self.records: list[NewRecord] = []
        self.settled: list[Settled] = []


class Publisher:
    """Appends records to any topic. One per door."""

    def __init__(
        self, broker: Broker, authorization: Authorization, routes: Routes, forwards: Forwards | None
    ) -> None:
        self._broker = broker
        self._authorization = authorization
        self._forwards = forwards
        """None: this broker is alone."""
        self._find = routes.partition if forwards is None else forwards.find
        self._loop = asyncio.get_running_loop()
        self._tasks = Tasks()
        self._pending: dict[Partition | RemotePartition, _PendingBatch] = {}
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
                target = self._choose(topic, record.key, partition)
                self._add(target, record, settled)
                if self._forwards is not None:
                    self._forwards.hold_back(target, hold)
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

    def _choose(self, topic: str, key: bytes | None, index: int | None) -> Partition | RemotePartition:
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

    def _add(self, partition: Partition | RemotePartition, record: NewRecord, settled: Settled) -> None:
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
            partition = pending.partition
            if isinstance(partition, Partition):
                yield from self._append(partition, pending)
            else:
                yield from partition.add(pending.records, pending.settled)

    def _append(self, partition: Partition, pending: _PendingBatch) -> Sliced[None]:
        for start, stop, _ in cut_records(pending.records, partition.config.message_bytes_max):
            records, settled = pending.records[start:stop], pending.settled[start:stop]
            if self._forwards is not None and not partition.is_leader:
                yield from self._forward(self._forwards, partition, records, settled)
                continue
            now_ms = self._broker.runtime.clock.now_ms()
            moved = append_records(partition, records, settled, now_ms)
            if moved is not None:
                settle_all(settled, moved)
            yield append_units(stop - start)

    def _forward(
        self, forwards: Forwards, partition: Partition, records: list[NewRecord], settled: list[Settled]
    ) -> Sliced[None]:
        """The partition ceased to be led here after it was chosen."""
        try:
            remote = forwards.elsewhere(partition.topic, partition.index)
        except UnknownTopic as error:
            settle_all(settled, error)
        else:
            yield from remote.add(records, settled)

    def _pending_sent(self, outcome: object) -> None:
        self._is_sending = False
        if self._unsent:  # a defect ended the work: do not leave the others waiting
            self._send()
