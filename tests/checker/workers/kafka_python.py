"""kafka-python as a worker's stack. Never blocks for ever: calls without a limit of their own run in a thread."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from kafka import ConsumerRebalanceListener, KafkaConsumer, KafkaProducer, TopicPartition
from kafka import errors as kafka_errors
from kafka.coordinator.assignors.range import RangePartitionAssignor
from kafka.structs import OffsetAndMetadata

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
    bounded,
)

FATAL = (
    kafka_errors.ProducerFencedError,
    kafka_errors.OutOfOrderSequenceNumberError,
    kafka_errors.InvalidProducerEpochError,
    kafka_errors.UnknownProducerIdError,
    kafka_errors.AuthorizationError,
    kafka_errors.IllegalStateError,
)
LOST_MEMBERSHIP = (
    kafka_errors.CommitFailedError,
    kafka_errors.IllegalGenerationError,
    kafka_errors.UnknownMemberIdError,
    kafka_errors.RebalanceInProgressError,
)
POSITION_LOST = (
    kafka_errors.OffsetOutOfRangeError,
    kafka_errors.NoOffsetForPartitionError,
    kafka_errors.LogTruncationError,
)


def _place(key: int) -> TopicPartition:
    return TopicPartition(*topic_of(key))


def _offsets(positions: dict[int, int]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {_place(key): OffsetAndMetadata(offset, "", -1) for key, offset in sorted(positions.items())}


def _guard(call: Callable[..., Any], *values: Any, **named: Any) -> Any:
    try:
        return call(*values, **named)
    except LOST_MEMBERSHIP as error:
        raise NotDone(repr(error)) from None
    except POSITION_LOST as error:
        raise PositionLost(repr(error)) from None
    except FATAL as error:
        raise Unknown(repr(error), is_fatal=True) from None
    except kafka_errors.KafkaError as error:
        raise Unknown(repr(error)) from None


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    def __init__(self, rebalanced: set[int]) -> None:
        self._rebalanced = rebalanced

    def on_partitions_revoked(self, revoked: list[TopicPartition]) -> None:
        self._rebalanced.update(key_of(place.topic, place.partition) for place in revoked)

    def on_partitions_assigned(self, assigned: list[TopicPartition]) -> None:
        self._rebalanced.update(key_of(place.topic, place.partition) for place in assigned)


class KafkaPythonStack:
    def __init__(self, place: Place) -> None:
        self._place = place
        self.rebalanced: set[int] = set()
        self._producer: KafkaProducer | None = None
        self._consumer: KafkaConsumer | None = None

    def open(self) -> None:
        _guard(self._open)

    def _open(self) -> None:
        shared: dict[str, Any] = {
            "bootstrap_servers": self._place.bootstrap,
            "client_id": self._place.name,
            "request_timeout_ms": REQUEST_MS_MAX,
            "reconnect_backoff_max_ms": 500,
            "bootstrap_timeout_ms": int(CALL_S_MAX * 1000),
        }
        transactional: dict[str, Any] = (
            {"transactional_id": self._place.transactional_id, "transaction_timeout_ms": TRANSACTION_MS_MAX}
            if self._place.transactional_id
            else {}
        )
        self._producer = KafkaProducer(
            **shared,
            **transactional,
            acks="all",
            enable_idempotence=True,
            max_block_ms=int(CALL_S_MAX * 1000),
            delivery_timeout_ms=int(SEND_S_MAX * 1000) - 1000,
        )
        self._consumer = KafkaConsumer(
            **shared,
            group_id=self._place.group or None,
            enable_auto_commit=False,
            auto_offset_reset="none",
            partition_assignment_strategy=(RangePartitionAssignor,),
            isolation_level=self._place.isolation,
            fetch_max_wait_ms=FETCH_MS,
            session_timeout_ms=SESSION_MS_MAX,
            heartbeat_interval_ms=HEARTBEAT_MS,
            max_poll_interval_ms=SESSION_MS_MAX,
        )
        if self._place.transactional_id:
            bounded(self._producer.init_transactions)

    def close(self) -> None:
        """Whatever a client says in farewell is not waited for beyond a moment."""
        producer, consumer = self._producer, self._consumer
        self._producer = self._consumer = None
        for farewell in (
            (lambda: producer.close(timeout=CLOSE_S_MAX)) if producer is not None else None,
            (lambda: consumer.close(timeout_ms=int(CLOSE_S_MAX * 1000))) if consumer is not None else None,
        ):
            if farewell is not None:
                thread = threading.Thread(target=farewell, daemon=True)
                thread.start()
                thread.join(CLOSE_S_MAX)

    def send(self, records: list[tuple[int, int]]) -> list[int | None]:
        producer = self._sure_producer()
        pending = []
        for key, value in records:
            topic, partition = topic_of(key)
            pending.append(_guard(producer.send, topic, str(value).encode(), partition=partition))
        deadline_s = time.monotonic() + SEND_S_MAX
        offsets: list[int | None] = []
        for future in pending:
            try:
                offsets.append(future.get(timeout=max(0.0, deadline_s - time.monotonic())).offset)
            except FATAL as error:
                raise Unknown(repr(error), is_fatal=True) from None
            except kafka_errors.KafkaTimeoutError:
                offsets.append(None)
            except kafka_errors.KafkaError as error:
                # Whatever else fails, the producer may stay in that state and refuse all further records.
                raise Unknown(repr(error), is_fatal=True) from None
        return offsets

    def assign(self, positions: dict[int, int]) -> None:
        consumer = self._sure_consumer()
        _guard(consumer.assign, [_place(key) for key in sorted(positions)])
        for key, offset in sorted(positions.items()):
            _guard(consumer.seek, _place(key), offset)

    def subscribe(self, topics: list[str]) -> None:
        _guard(self._sure_consumer().subscribe, topics, listener=Listener(self.rebalanced))

    def poll(self) -> Polled:
        consumer = self._sure_consumer()
        found = _guard(consumer.poll, timeout_ms=POLL_MS, max_records=POLL_RECORDS_MAX)
        return {
            key_of(place.topic, place.partition): [(record.offset, int(record.value)) for record in records]
            for place, records in sorted(found.items())
            if records
        }

    def seek(self, positions: dict[int, int]) -> None:
        consumer = self._sure_consumer()
        owned = consumer.assignment()
        for key, offset in sorted(positions.items()):
            if _place(key) in owned:
                _guard(consumer.seek, _place(key), offset)

    def commit(self, positions: dict[int, int]) -> None:
        consumer = self._sure_consumer()
        _guard(consumer.commit, _offsets(positions), timeout_ms=int(CALL_S_MAX * 1000))

    def begin(self) -> None:
        _guard(self._sure_producer().begin_transaction)

    def add_offsets(self, positions: dict[int, int]) -> None:
        producer, member = self._sure_producer(), self._sure_consumer().group_metadata()
        _guard(bounded, lambda: producer.send_offsets_to_transaction(_offsets(positions), member))

    def commit_transaction(self) -> None:
        producer = self._sure_producer()
        try:
            _guard(bounded, producer.commit_transaction)
        except (Unknown, NotDone) as error:
            raise Unknown(str(error), is_fatal=True) from None

    def abort_transaction(self) -> None:
        producer = self._sure_producer()
        _guard(bounded, producer.abort_transaction)

    def _sure_producer(self) -> KafkaProducer:
        assert self._producer is not None
        return self._producer

    def _sure_consumer(self) -> KafkaConsumer:
        assert self._consumer is not None
        return self._consumer
