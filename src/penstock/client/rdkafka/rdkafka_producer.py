"""The librdkafka producer under Producer and AsyncProducer: settings, partitions, deliveries, transactions.

All calls may block; AsyncProducer runs them in a thread. Each record completes exactly once, with its position or an
error, in the thread that polls librdkafka.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Producer

from penstock.client.errors import (
    Aborted,
    BadArgument,
    ClientError,
    DeliveryFailed,
    Fenced,
    IllegalState,
    TimedOut,
)
from penstock.client.messages import Placed, Record
from penstock.client.options import RETRIES_MAX, ProducerOptions, resolve_options
from penstock.client.rdkafka.consumer_progress import ConsumerProgress
from penstock.client.rdkafka.library import LibraryErrors, address, configure, create, ms, wait_reachable
from penstock.client.rdkafka.partitioner import APPEARS_S_MAX, PartitionChoice
from penstock.client.rdkafka.translation import cause, translate
from penstock.client.serializers import encode, serializer

logger = logging.getLogger("penstock.client.rdkafka.producer")

POLL_S = 0.1
REASONS_MAX = 100
ABANDONED_S_MAX = 5.0
_ACKS = {"none": 0, "leader": 1, "all": -1}

Settled = Callable[[Placed | ClientError], None]


class QueueFull(Exception):
    """The librdkafka queue is full. Internal: callers wait and retry."""


def producer_settings(options: ProducerOptions) -> dict[str, Any]:
    """Map options to librdkafka settings. Raises BadArgument for conflicting options."""
    delivery, acks = options["delivery"], options["acks"]
    own: dict[str, Any] = {
        "acks": _ACKS[acks],
        "partitioner": "murmur2_random",
        "linger.ms": options["linger_ms"],
        "batch.size": options["batch_bytes_max"],
        "batch.num.messages": options["batch_records_max"],
        "compression.type": options["compression"],
        "retries": 0 if delivery == "at_most_once" else options["retries"],
        "retry.backoff.ms": options["retry_backoff_ms"],
        "retry.backoff.max.ms": max(options["retry_backoff_ms"], 1_000),
        "message.timeout.ms": ms(options["delivery_s_max"]),
        "queue.buffering.max.messages": options["queue_records_max"],
        "queue.buffering.max.kbytes": max(1, options["queue_bytes_max"] // 1024),
        "topic.metadata.propagation.max.ms": ms(APPEARS_S_MAX),
        "message.max.bytes": 1_000_000_000,
        "enable.idempotence": acks == "all" and options["retries"] > 0 and delivery != "at_most_once",
    }
    if delivery == "exactly_once":
        if not options["transactional_id"]:
            raise BadArgument(
                "Producer: delivery='exactly_once' needs transactional_id, a name that is stable across restarts."
            )
        if acks != "all" or not options["retries"]:
            raise BadArgument("Producer: delivery='exactly_once' needs acks='all' and retries.")
        own["transactional.id"] = options["transactional_id"]
        own["transaction.timeout.ms"] = ms(options["transaction_s_max"])
        own["message.timeout.ms"] = min(own["message.timeout.ms"], own["transaction.timeout.ms"])
    if delivery == "at_most_once" and 0 < options["retries"] < RETRIES_MAX:
        raise BadArgument(
            "Producer: delivery='at_most_once' never retries; the retries option contradicts it."
        )
    if delivery != "exactly_once" and options["transactional_id"] is not None:
        raise BadArgument("Producer: transactional_id is for delivery='exactly_once'.")
    return own


class RdkafkaProducer:
    """One librdkafka producer, its polling thread and the failed deliveries not yet reported."""

    def __init__(self, given: Mapping[str, Any], after_poll: Callable[[], None] = lambda: None) -> None:
        self.options = resolve_options(ProducerOptions, given, "Producer")
        self._key = serializer(self.options["key_serializer"])
        self._value = serializer(self.options["value_serializer"])
        self._settings = producer_settings(self.options)
        self.library_errors = LibraryErrors()
        self._after_poll = after_poll
        self._lock = threading.Lock()
        self._failed: list[ClientError] = []
        self._failed_count = 0
        self._unseen: set[int] = set()
        self._in_transaction = False
        self._stopping = threading.Event()
        self._room = threading.Event()
        self._producer: Producer | None = None
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Connect; with exactly_once, also abort an open transaction of the same transactional id."""
        if self._producer is not None or self._stopping.is_set():
            raise IllegalState("A producer cannot be reopened: create a new one.")
        wait_reachable(self.options)
        producer = create(Producer, configure(self.options, self._settings, self.library_errors))
        if self.is_transactional:
            self._repeat(producer.init_transactions, "transactions")
        self.partitions = PartitionChoice(producer, self.options)
        self._producer = producer
        self._thread = threading.Thread(target=self._poll, name="penstock-producer", daemon=True)
        self._thread.start()
        logger.info(
            "producer opened",
            extra={"bootstrap": address(self.options), "delivery": self.options["delivery"]},
        )

    @property
    def is_transactional(self) -> bool:
        return self.options["delivery"] == "exactly_once"

    @property
    def is_open(self) -> bool:
        return self._producer is not None

    @property
    def waiting(self) -> int:
        """Number of records not yet acknowledged or failed."""
        return len(self._producer) if self._producer is not None else 0

    def _opened(self) -> Producer:
        if self._producer is None:
            raise IllegalState("The producer is not open: it was closed or never started.")
        return self._producer

    def encode(self, record: Record) -> Record:
        """Serialize a record and select its partition. Raises SerializationFailed, BadArgument."""
        if self.is_transactional and not self._in_transaction:
            raise IllegalState(
                "This producer writes in transactions: send inside `with producer.transaction():`."
            )
        self._opened()
        key = encode(self._key, record.key, record.topic, f"{record.topic}: the key")
        value = encode(self._value, record.value, record.topic, f"{record.topic}: the value")
        partition = self.partitions.choose(record.topic, key, record.partition)
        return Record(record.topic, value, key, _headers(record), partition, record.timestamp_ms)

    def enqueue(self, record: Record, settled: Settled) -> None:
        """Queue a serialized record; `settled` is called once, in the polling thread. Raises QueueFull, ClientError."""

        def delivered(error: KafkaError | None, message: Any) -> None:
            settled(self._outcome(record.topic, error, message))

        more: dict[str, Any] = {"headers": record.headers} if record.headers else {}
        if record.partition is not None:
            more["partition"] = record.partition
        if record.timestamp_ms is not None:
            more["timestamp"] = record.timestamp_ms
        try:
            self._opened().produce(record.topic, record.value, record.key, on_delivery=delivered, **more)
        except BufferError:
            raise QueueFull from None
        except (KafkaException, TypeError, ValueError, OverflowError) as error:
            raise rejection(record.topic, error) from error

    @property
    def library_producer(self) -> Producer:
        """librdkafka's producer, for callers that handle its delivery reports themselves. Raises IllegalState."""
        return self._opened()

    def wait_for_room(self) -> None:
        """Wait until a delivery completes, at most POLL_S."""
        self._room.clear()
        self._room.wait(POLL_S)
        self._opened()

    def _outcome(self, topic: str, error: KafkaError | None, message: Any) -> Placed | ClientError:
        if error is None:
            offset = message.offset()
            kind, timestamp_ms = message.timestamp()
            known = offset is not None and offset >= 0
            return Placed(
                topic, message.partition(), offset if known else None, timestamp_ms if kind else None
            )
        translated = self.library_errors.explain(translate(error, topic))
        if not isinstance(translated, Aborted):
            with self._lock:
                self._failed_count += 1
                self._unseen.add(id(translated))
                if len(self._failed) < REASONS_MAX:
                    self._failed.append(translated)
            logger.error(
                "record not delivered: %s", translated, extra={"topic": topic, "code": translated.code}
            )
        return translated

    def seen(self, translated: ClientError) -> None:
        """Mark an error as reported to the program, so that `raise_failures` skips it."""
        with self._lock:
            if id(translated) in self._unseen:
                self._unseen.discard(id(translated))
                self._failed = [one for one in self._failed if one is not translated]
                self._failed_count -= 1

    def raise_failures(self) -> None:
        """Raise DeliveryFailed for failures not reported yet."""
        with self._lock:
            reasons, count = tuple(self._failed), self._failed_count
            self._forget_failures()
        if count:
            what = f"{count} records were" if count > 1 else "1 record was"
            raise DeliveryFailed(
                f"{what} not delivered" + (f"; the first: {reasons[0]}" if reasons else ""),
                retriable=all(one.retriable for one in reasons),
                code=reasons[0].code if reasons else "",
                count=count,
                reasons=reasons,
            )

    def _forget_failures(self) -> None:
        self._failed, self._failed_count = [], 0
        self._unseen.clear()

    def flush(self, seconds_max: float | None) -> None:
        """Wait for all deliveries. Raises TimedOut, DeliveryFailed."""
        left = self._opened().flush(-1 if seconds_max is None else seconds_max)
        if left:
            raise TimedOut(f"{left} records are not acknowledged after {seconds_max:g} s.")
        self.raise_failures()

    @contextmanager
    def transaction(self, progress: ConsumerProgress | None) -> Iterator[None]:
        """One transaction, including the consumer's offsets if given."""
        self.begin()
        try:
            yield
            self.commit(progress)
        except BaseException as error:
            self.abort(progress, error)
            raise
        if progress is not None:
            progress.transaction_ended(committed=True)

    def begin(self) -> None:
        """Begin a transaction. Raises IllegalState without exactly_once."""
        if not self.is_transactional:
            raise IllegalState("Transactions need Producer(delivery='exactly_once', transactional_id=...).")
        if self._in_transaction:
            raise IllegalState("A transaction is already open; transactions do not nest.")
        self._repeat(lambda _: self._opened().begin_transaction(), "transaction")
        self._in_transaction = True

    def commit(self, progress: ConsumerProgress | None) -> None:
        """Commit the transaction. Raises Aborted, Fenced, or DeliveryFailed if a retry cannot succeed."""
        producer = self._opened()
        try:
            if progress is not None:
                offsets, group = progress.offsets_for_transaction()
                if offsets:
                    self._repeat(
                        lambda wait_s: producer.send_offsets_to_transaction(offsets, group, wait_s), "offsets"
                    )
            self._repeat(producer.commit_transaction, "transaction")
        except Aborted:
            if any(not one.retriable for one in self._failed):
                self.raise_failures()
            raise
        self._in_transaction = False

    def abort(self, progress: ConsumerProgress | None, why: BaseException) -> None:
        """Abort the transaction. `why` reaches the program, so its failed deliveries count as reported."""
        self._in_transaction = False
        try:
            if not isinstance(why, Fenced):
                self._repeat(self._opened().abort_transaction, "transaction")
        except ClientError as error:
            why.add_note(f"Aborting the transaction failed; the broker aborts it after its timeout: {error}")
        with self._lock:
            self._forget_failures()
        if progress is not None:
            progress.transaction_ended(committed=False)

    def _repeat(self, call: Callable[[float], None], about: str) -> None:
        """Retry a call on retriable errors until the transaction timeout."""
        deadline = time.monotonic() + self.options["transaction_s_max"]
        while True:
            try:
                call(self.options["request_s_max"])
                return
            except KafkaException as error:
                if not cause(error).retriable() or time.monotonic() > deadline:
                    raise self.library_errors.explain(translate(cause(error), about)) from error

    def _poll(self) -> None:
        producer = self._opened()
        while not self._stopping.is_set():
            try:
                producer.poll(POLL_S)
            except KafkaException as error:  # fatal: every later call raises it as well
                translated = translate(cause(error), "producer")
                logger.error("producer failed: %s", translated, extra={"code": translated.code})
            self._room.set()
            self._after_poll()

    def close(self) -> None:
        """Wait for all deliveries, then close. Raises DeliveryFailed."""
        producer = self._producer
        if producer is None:
            return
        try:
            producer.flush(-1)
        finally:
            self._end(producer)
        self.raise_failures()

    def abandon(self) -> None:
        """Flush a producer that was garbage-collected without close(); log the records that are lost."""
        producer = self._producer
        if producer is None:
            return
        left = producer.flush(ABANDONED_S_MAX)
        if left:
            logger.error("producer was not closed: %d records lost; use `with` or close()", left)
        self._end(producer)

    def _end(self, producer: Producer) -> None:
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()  # garbage collection may run this in the polling thread
        producer.purge()
        producer.poll(0)
        self._after_poll()
        self._producer = None
        logger.info("producer closed")


def rejection(topic: str, error: Exception) -> ClientError:
    """The error of a record that librdkafka did not queue."""
    return (
        translate(cause(error), topic)
        if isinstance(error, KafkaException)
        else BadArgument(f"{topic}: {error}")
    )


def _headers(record: Record) -> list[tuple[str, bytes | str | None]]:
    headers = record.headers
    return list(headers.items() if isinstance(headers, Mapping) else headers)
