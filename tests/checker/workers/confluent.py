"""librdkafka as a worker's stack. Never waits for anything without a bound."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import (
    Consumer,
    KafkaError,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)

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

LOST_MEMBERSHIP = frozenset(
    (
        KafkaError.ILLEGAL_GENERATION,
        KafkaError.UNKNOWN_MEMBER_ID,
        KafkaError.REBALANCE_IN_PROGRESS,
        KafkaError._ASSIGNMENT_LOST,
    )
)
FATAL = frozenset(
    (
        KafkaError._FATAL,
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER,
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
        KafkaError._STATE,
    )
)

POSITION_LOST = frozenset((KafkaError._AUTO_OFFSET_RESET, KafkaError._LOG_TRUNCATION))


def _unknown(error: KafkaError) -> Unknown:
    return Unknown(str(error), is_fatal=error.fatal() or error.code() in FATAL)


def _end_producer(producer: Producer | None) -> None:
    """The caller holds no reference any more, so it is destroyed here."""
    if producer is not None:
        producer.purge()
        with contextlib.suppress(KafkaException):  # a fatal error, which is why it is closed
            producer.poll(0)


def _end_consumer(consumer: Consumer | None) -> None:
    if consumer is not None:
        with contextlib.suppress(KafkaException):
            consumer.close()


def _guard(call: Callable[..., Any], *values: Any, **named: Any) -> None:
    try:
        call(*values, **named)
    except KafkaException as error:
        raise _unknown(error.args[0]) from None


def _place(key: int, offset: int | None = None) -> TopicPartition:
    return TopicPartition(*topic_of(key)) if offset is None else TopicPartition(*topic_of(key), offset)


class ConfluentStack:
    def __init__(self, place: Place) -> None:
        self._place = place
        self.rebalanced: set[int] = set()
        self._producer: Producer | None = None
        self._consumer: Consumer | None = None
        self._is_grouped = False
        self._positions: dict[int, int] = {}

    def open(self) -> None:
        shared: dict[str, Any] = {
            "bootstrap.servers": self._place.bootstrap,
            "client.id": self._place.name,
            "reconnect.backoff.max.ms": 500,
            "socket.timeout.ms": REQUEST_MS_MAX,
            # Bootstrapping anew when the only broker is down loses calls that are under way: they never return.
            "metadata.recovery.strategy": "none",
            "log_level": 0,
        }
        producing: dict[str, Any] = {
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 1,
            "request.timeout.ms": REQUEST_MS_MAX,
            "delivery.timeout.ms": int(SEND_S_MAX * 1000) - 1000,
        }
        if self._place.transactional_id:
            producing["transactional.id"] = self._place.transactional_id
            producing["transaction.timeout.ms"] = TRANSACTION_MS_MAX
        consuming = {
            "group.id": self._place.group or self._place.name,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "partition.assignment.strategy": "range",
            "isolation.level": self._place.isolation,
            "fetch.wait.max.ms": FETCH_MS,
            "session.timeout.ms": SESSION_MS_MAX,
            "heartbeat.interval.ms": HEARTBEAT_MS,
        }
        self._producer = Producer({**shared, **producing})
        self._consumer = Consumer({**shared, **consuming})
        if self._place.transactional_id:
            try:
                self._producer.init_transactions(CALL_S_MAX)
            except KafkaException as error:
                raise Unknown(str(error), is_fatal=True) from None

    def close(self) -> None:
        """librdkafka may never destroy a producer whose call ran out of time, say an abort: that is left behind."""
        producers, consumers = [self._producer], [self._consumer]
        self._producer = self._consumer = None

        def destroy() -> None:
            _end_consumer(consumers.pop())
            _end_producer(producers.pop())

        with contextlib.suppress(Unknown):
            bounded(destroy, CALL_S_MAX)

    def send(self, records: list[tuple[int, int]]) -> list[int | None]:
        producer = self._sure_producer()
        offsets: list[int | None] = [None] * len(records)
        errors: list[KafkaError] = []
        answered = [0]

        def note(place: int) -> Any:
            def report(error: KafkaError | None, message: Message) -> None:
                answered[0] += 1
                if error is not None:
                    errors.append(error)
                else:
                    offsets[place] = message.offset()

            return report

        for place, (key, value) in enumerate(records):
            topic, partition = topic_of(key)
            _guard(producer.produce, topic, str(value).encode(), partition=partition, on_delivery=note(place))
        deadline_s = time.monotonic() + SEND_S_MAX
        while answered[0] < len(records) and time.monotonic() < deadline_s:
            _guard(producer.poll, 0.1)
        for refusal in errors:
            if refusal.fatal() or refusal.code() in FATAL:
                raise _unknown(refusal)
        return offsets

    def assign(self, positions: dict[int, int]) -> None:
        self._is_grouped = False
        # Not OFFSET_BEGINNING: if librdkafka gets the response to its query for that after the next assign, it asks
        # again half a second later, and goes back to the beginning though it has moved on since.
        places = [_place(key, offset) for key, offset in sorted(positions.items())]
        _guard(self._sure_consumer().assign, places)
        self._positions = dict(positions)

    def subscribe(self, topics: list[str]) -> None:
        self._is_grouped = True

        def note(_: Consumer, places: list[TopicPartition]) -> None:
            self.rebalanced.update(key_of(place.topic, place.partition) for place in places)

        _guard(self._sure_consumer().subscribe, topics, on_assign=note, on_revoke=note, on_lost=note)

    def poll(self) -> Polled:
        consumer = self._sure_consumer()
        polled: Polled = {}
        try:
            first = consumer.poll(POLL_MS / 1000)
            messages = [] if first is None else [first, *consumer.consume(POLL_RECORDS_MAX - 1, 0)]
        except KafkaException as error:
            raise _unknown(error.args[0]) from None
        for message in messages:
            trouble = message.error()
            if trouble is not None:
                if trouble.code() in POSITION_LOST:
                    raise PositionLost(str(trouble))
                if trouble.fatal():
                    raise _unknown(trouble)
                continue  # a note about a connection: the records around it count
            key = key_of(str(message.topic()), int(message.partition() or 0))
            polled.setdefault(key, []).append((int(message.offset() or 0), int(message.value() or b"")))
        if not self._is_grouped:
            for key, pairs in polled.items():
                self._positions[key] = pairs[-1][0] + 1
        return polled

    def seek(self, positions: dict[int, int]) -> None:
        if not self._is_grouped:
            self.assign({**self._positions, **positions})
            return
        consumer = self._sure_consumer()
        owned = {key_of(place.topic, place.partition) for place in consumer.assignment()}
        for key in sorted(owned & positions.keys()):
            place = _place(key, positions[key])
            _guard(consumer.seek, place)

    def commit(self, positions: dict[int, int]) -> None:
        places = [_place(key, offset) for key, offset in sorted(positions.items())]
        try:
            results = self._sure_consumer().commit(offsets=places, asynchronous=False)
        except KafkaException as error:
            if error.args[0].code() in LOST_MEMBERSHIP:
                raise NotDone(str(error)) from None
            raise _unknown(error.args[0]) from None
        for result in results or ():
            if result.error is not None:
                raise Unknown(str(result.error))

    def begin(self) -> None:
        _guard(self._sure_producer().begin_transaction)

    def add_offsets(self, positions: dict[int, int]) -> None:
        places = [_place(key, offset) for key, offset in sorted(positions.items())]
        member, producer = self._sure_consumer().consumer_group_metadata(), self._sure_producer()
        # librdkafka does not look at the time limit while it waits for the group's coordinator, and never asks again
        # who that is if its broker has left the metadata for a while.
        send = producer.send_offsets_to_transaction
        _guard(bounded, lambda: send(places, member, CALL_S_MAX), CALL_S_MAX + CLOSE_S_MAX)

    def commit_transaction(self) -> None:
        try:
            self._sure_producer().commit_transaction(CALL_S_MAX)
        except KafkaException as error:
            raise Unknown(str(error), is_fatal=True) from None

    def abort_transaction(self) -> None:
        _guard(self._sure_producer().abort_transaction, CALL_S_MAX)

    def _sure_producer(self) -> Producer:
        assert self._producer is not None
        return self._producer

    def _sure_consumer(self) -> Consumer:
        assert self._consumer is not None
        return self._consumer
