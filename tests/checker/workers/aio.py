"""aiokafka as a worker's stack, on an event loop of its own. Never runs the loop between two operations."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka import errors as aio_errors
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import KafkaError

from checker.history import key_of, topic_of
from checker.workers.stack import (
    CALL_S_MAX,
    CLOSE_S_MAX,
    FETCH_MS,
    HEARTBEAT_MS,
    POLL_MS,
    POLL_RECORDS_MAX,
    REQUEST_MS_MAX,
    SEND_S_MAX,
    SESSION_MS_MAX,
    TRANSACTION_MS_MAX,
    NotDone,
    Place,
    Polled,
    PositionLost,
    Unknown,
)

T = TypeVar("T")
FATAL = (
    aio_errors.ProducerFenced,
    aio_errors.ProducerClosed,
    aio_errors.OutOfOrderSequenceNumber,
    aio_errors.InvalidProducerEpoch,
    aio_errors.InvalidProducerIdMapping,
    aio_errors.TopicAuthorizationFailedError,
    aio_errors.TransactionalIdAuthorizationFailed,
    aio_errors.IllegalOperation,
    aio_errors.IllegalStateError,
    aio_errors.ConsumerStoppedError,
    AssertionError,
)
"""aiokafka guards the states of its transactions by assertions; a client that fails one is not to be used again."""
LEFT_GROUP = "Unexpected error during coordination"
"""What every call returns from then on: the task that keeps the consumer in its group has failed an assertion."""
LOST_MEMBERSHIP = (
    aio_errors.CommitFailedError,
    aio_errors.IllegalGenerationError,
    aio_errors.UnknownMemberIdError,
    aio_errors.RebalanceInProgressError,
)
POSITION_LOST = (aio_errors.OffsetOutOfRangeError, aio_errors.NoOffsetForPartitionError)


def _place(key: int) -> TopicPartition:
    return TopicPartition(*topic_of(key))


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, rebalanced: set[int]) -> None:
        self._rebalanced = rebalanced

    async def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self._rebalanced.update(key_of(place.topic, place.partition) for place in revoked)

    async def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self._rebalanced.update(key_of(place.topic, place.partition) for place in assigned)


class AiokafkaStack:
    def __init__(self, place: Place) -> None:
        self._place = place
        self.rebalanced: set[int] = set()
        self._loop = asyncio.new_event_loop()
        self._producer: AIOKafkaProducer | None = None
        self._consumer: AIOKafkaConsumer | None = None

    def open(self) -> None:
        self._run(self._open(), CALL_S_MAX)

    async def _open(self) -> None:
        transactional = (
            {"transactional_id": self._place.transactional_id, "transaction_timeout_ms": TRANSACTION_MS_MAX}
            if self._place.transactional_id
            else {}
        )
        self._producer = AIOKafkaProducer(
            bootstrap_servers=self._place.bootstrap,
            client_id=self._place.name,
            enable_idempotence=True,
            acks="all",
            request_timeout_ms=REQUEST_MS_MAX,
            **transactional,
        )
        await self._producer.start()
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self._place.bootstrap,
            client_id=self._place.name,
            group_id=self._place.group or None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            partition_assignment_strategy=(RangePartitionAssignor,),
            isolation_level=self._place.isolation,
            fetch_max_wait_ms=FETCH_MS,
            request_timeout_ms=REQUEST_MS_MAX,
            session_timeout_ms=SESSION_MS_MAX,
            heartbeat_interval_ms=HEARTBEAT_MS,
        )
        await self._consumer.start()

    def close(self) -> None:
        """A short farewell; whatever still runs after it is cancelled."""
        self._loop.run_until_complete(self._abandon())
        self._loop.close()

    async def _abandon(self) -> None:
        farewells = [
            asyncio.ensure_future(client.stop())
            for client in (self._consumer, self._producer)
            if client is not None
        ]
        if farewells:
            await asyncio.wait(farewells, timeout=CLOSE_S_MAX)
        rest = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in rest:
            task.cancel()
        if rest:
            await asyncio.wait(rest, timeout=CLOSE_S_MAX)

    def send(self, records: list[tuple[int, int]]) -> list[int | None]:
        return self._run(self._send(records), SEND_S_MAX + CALL_S_MAX)

    async def _send(self, records: list[tuple[int, int]]) -> list[int | None]:
        producer = self._sure_producer()
        pending = []
        for key, value in records:
            topic, partition = topic_of(key)
            pending.append(await producer.send(topic, str(value).encode(), partition=partition))
        await asyncio.wait(pending, timeout=SEND_S_MAX)
        offsets: list[int | None] = []
        for future in pending:
            error = future.exception() if future.done() else None
            if isinstance(error, FATAL):
                raise Unknown(repr(error), is_fatal=True)
            offsets.append(future.result().offset if future.done() and error is None else None)
        return offsets

    def assign(self, positions: dict[int, int]) -> None:
        self._run(self._assign(positions), CALL_S_MAX)

    async def _assign(self, positions: dict[int, int]) -> None:
        consumer = self._sure_consumer()
        consumer.assign([_place(key) for key in sorted(positions)])
        for key, offset in sorted(positions.items()):
            consumer.seek(_place(key), offset)

    def subscribe(self, topics: list[str]) -> None:
        self._run(self._subscribe(topics), CALL_S_MAX)

    async def _subscribe(self, topics: list[str]) -> None:
        self._sure_consumer().subscribe(topics, listener=Listener(self.rebalanced))

    def poll(self) -> Polled:
        return self._run(self._poll(), CALL_S_MAX)

    async def _poll(self) -> Polled:
        found = await self._sure_consumer().getmany(timeout_ms=POLL_MS, max_records=POLL_RECORDS_MAX)
        return {
            key_of(place.topic, place.partition): [(record.offset, int(record.value)) for record in records]
            for place, records in sorted(found.items())
            if records
        }

    def seek(self, positions: dict[int, int]) -> None:
        self._run(self._seek(positions), CALL_S_MAX)

    async def _seek(self, positions: dict[int, int]) -> None:
        consumer = self._sure_consumer()
        owned = consumer.assignment()
        for key, offset in sorted(positions.items()):
            if _place(key) in owned:
                consumer.seek(_place(key), offset)

    def commit(self, positions: dict[int, int]) -> None:
        offsets = {_place(key): offset for key, offset in sorted(positions.items())}
        self._run(self._sure_consumer().commit(offsets), CALL_S_MAX)

    def begin(self) -> None:
        self._run(self._sure_producer().begin_transaction(), CALL_S_MAX)

    def add_offsets(self, positions: dict[int, int]) -> None:
        offsets = {_place(key): offset for key, offset in sorted(positions.items())}
        self._run(self._sure_producer().send_offsets_to_transaction(offsets, self._place.group), CALL_S_MAX)

    def commit_transaction(self) -> None:
        try:
            self._run(self._sure_producer().commit_transaction(), CALL_S_MAX)
        except (Unknown, NotDone) as error:
            raise Unknown(str(error), is_fatal=True) from None

    def abort_transaction(self) -> None:
        self._run(self._sure_producer().abort_transaction(), CALL_S_MAX)

    def _run(self, work: Coroutine[Any, Any, T], s_max: float) -> T:
        try:
            return self._loop.run_until_complete(asyncio.wait_for(work, s_max))
        except LOST_MEMBERSHIP as error:
            raise NotDone(repr(error)) from None
        except POSITION_LOST as error:
            raise PositionLost(repr(error)) from None
        except FATAL as error:
            raise Unknown(repr(error), is_fatal=True) from None
        except KafkaError as error:
            raise Unknown(repr(error), is_fatal=LEFT_GROUP in str(error)) from None
        except TimeoutError:
            raise Unknown("no answer in time", is_fatal=True) from None

    def _sure_producer(self) -> AIOKafkaProducer:
        assert self._producer is not None
        return self._producer

    def _sure_consumer(self) -> AIOKafkaConsumer:
        assert self._consumer is not None
        return self._consumer
