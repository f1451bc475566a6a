"""The way of records to the broker, under Producer and AsyncProducer: settings, partitions, deliveries, transactions.

Every call may block; AsyncProducer makes them from a thread. Never loses sight of a record: each is settled once, with
its place or with an error, by the thread that polls the library.
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
from penstock.client.rdkafka.library import address, configure, create, ms, wait_reachable
from penstock.client.rdkafka.partitioner import APPEARS_S_MAX, PartitionChoice
from penstock.client.rdkafka.translation import cause, translate
from penstock.client.serializers import encode, serializer

logger = logging.getLogger("penstock.client.producer")

POLL_S = 0.1
REASONS_MAX = 100
ABANDONED_S_MAX = 5.0
_ACKS = {"none": 0, "leader": 1, "all": -1}

Settled = Callable[[Placed | ClientError], None]


class QueueFull(Exception):
    """The library's queue has no room for another record now. Never reaches a program."""


def producer_settings(options: ProducerOptions) -> dict[str, Any]:
    """Options in the library's words. Raises BadArgument for options that contradict each other."""
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
                "Producer: delivery='exactly_once' needs transactional_id, a name that stays over restarts."
            )
        if acks != "all" or not options["retries"]:
            raise BadArgument("Producer: delivery='exactly_once' needs acks='all' and retries.")
        own["transactional.id"] = options["transactional_id"]
        own["transaction.timeout.ms"] = ms(options["transaction_s_max"])
        own["message.timeout.ms"] = min(own["message.timeout.ms"], own["transaction.timeout.ms"])
    if delivery == "at_most_once" and 0 < options["retries"] < RETRIES_MAX:
        raise BadArgument("Producer: delivery='at_most_once' never sends again; retries contradicts it.")
    if delivery != "exactly_once" and options["transactional_id"] is not None:
        raise BadArgument("Producer: transactional_id is for delivery='exactly_once'.")
    return own


class RdkafkaProducer:
    """One producer of the library, the thread that polls it, and what became of the records."""

    def __init__(self, given: Mapping[str, Any], after_poll: Callable[[], None] = lambda: None) -> None:
        self.options = resolve_options(ProducerOptions, given, "Producer")
        self._key = serializer(self.options["key_serializer"])
        self._value = serializer(self.options["value_serializer"])
        self._settings = producer_settings(self.options)
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
        """Reach the broker and, for exactly_once, end what an earlier producer of this name left open."""
        if self._producer is not None or self._stopping.is_set():
            raise IllegalState("A producer is opened once; make another.")
        wait_reachable(self.options)
        producer = create(Producer, configure(self.options, self._settings))
        if self.is_transactional:
            self._repeat(producer.init_transactions, "transactions")
        self.partitions = PartitionChoice(producer, self.options)
        self._producer = producer
        self._thread = threading.Thread(target=self._poll, name="penstock-producer", daemon=True)
        self._thread.start()
        logger.info("open", extra={"bootstrap": address(self.options), "delivery": self.options["delivery"]})

    @property
    def is_transactional(self) -> bool:
        return self.options["delivery"] == "exactly_once"

    @property
    def is_open(self) -> bool:
        return self._producer is not None

    @property
    def waiting(self) -> int:
        """How many records are not settled yet."""
        return len(self._producer) if self._producer is not None else 0

    def _opened(self) -> Producer:
        if self._producer is None:
            raise IllegalState("The producer is not open: it was closed, or never started.")
        return self._producer

    def encode(self, record: Record) -> Record:
        """The record as bytes, with its partition where we choose it. Raises SerializationFailed, BadArgument."""
        if self.is_transactional and not self._in_transaction:
            raise IllegalState(
                "This producer writes in transactions: send inside of `with producer.transaction():`."
            )
        self._opened()
        key = encode(self._key, record.key, record.topic, f"{record.topic}: the key")
        value = encode(self._value, record.value, record.topic, f"{record.topic}: the value")
        partition = self.partitions.choose(record.topic, key, record.partition)
        return Record(record.topic, value, key, _headers(record), partition, record.timestamp_ms)

    def enqueue(self, record: Record, settled: Settled) -> None:
        """Hand bytes over; `settled` is called once, from the polling thread. Raises QueueFull, ClientError."""

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
        except KafkaException as error:
            raise translate(cause(error), record.topic) from error
        except (TypeError, ValueError) as error:
            raise BadArgument(f"{record.topic}: {error}") from error

    def wait_for_room(self) -> None:
        """Until something has been settled, or a moment has passed."""
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
        told = translate(error, topic)
        if not isinstance(told, Aborted):
            with self._lock:
                self._failed_count += 1
                self._unseen.add(id(told))
                if len(self._failed) < REASONS_MAX:
                    self._failed.append(told)
            logger.error("a record was not delivered: %s", told, extra={"topic": topic, "code": told.code})
        return told

    def seen(self, told: ClientError) -> None:
        """The program has been given this error: it need not be told of it again."""
        with self._lock:
            if id(told) in self._unseen:
                self._unseen.discard(id(told))
                self._failed = [one for one in self._failed if one is not told]
                self._failed_count -= 1

    def raise_failures(self) -> None:
        """Raise DeliveryFailed for what failed and was told to nobody yet."""
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
        """Until everything is settled. Raises TimedOut, DeliveryFailed."""
        left = self._opened().flush(-1 if seconds_max is None else seconds_max)
        if left:
            raise TimedOut(f"{left} records are still on their way after {seconds_max:g} s.")
        self.raise_failures()

    @contextmanager
    def transaction(self, progress: ConsumerProgress | None) -> Iterator[None]:
        """One transaction, with a consumer's progress in it if there is one."""
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
        """Raises IllegalState where transactions are not what this producer does."""
        if not self.is_transactional:
            raise IllegalState("Transactions need Producer(delivery='exactly_once', transactional_id=...).")
        if self._in_transaction:
            raise IllegalState("A transaction is open already; they do not nest.")
        self._repeat(lambda _: self._opened().begin_transaction(), "transaction")
        self._in_transaction = True

    def commit(self, progress: ConsumerProgress | None) -> None:
        """All of the transaction or nothing. Raises Aborted, Fenced, and DeliveryFailed where another try is no use."""
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
        """Nothing of the transaction has happened. `why` is told to the program, so what failed in it is told."""
        self._in_transaction = False
        try:
            if not isinstance(why, Fenced):
                self._repeat(self._opened().abort_transaction, "transaction")
        except ClientError as error:
            why.add_note(f"The transaction could not be aborted, the broker will: {error}")
        with self._lock:
            self._forget_failures()
        if progress is not None:
            progress.transaction_ended(committed=False)

    def _repeat(self, call: Callable[[float], None], about: str) -> None:
        """Call again while the library says that it may be called again, for as long as a transaction may take."""
        deadline = time.monotonic() + self.options["transaction_s_max"]
        while True:
            try:
                call(self.options["request_s_max"])
                return
            except KafkaException as error:
                if not cause(error).retriable() or time.monotonic() > deadline:
                    raise translate(cause(error), about) from error

    def _poll(self) -> None:
        producer = self._opened()
        while not self._stopping.is_set():
            try:
                producer.poll(POLL_S)
            except (
                KafkaException
            ) as error:  # the producer can do nothing more; each call that is made tells so
                told = translate(cause(error), "producer")
                logger.error("%s", told, extra={"code": told.code})
            self._room.set()
            self._after_poll()

    def close(self) -> None:
        """Settle everything, then end. Raises DeliveryFailed for what could not be."""
        producer = self._producer
        if producer is None:
            return
        try:
            producer.flush(-1)
        finally:
            self._end(producer)
        self.raise_failures()

    def abandon(self) -> None:
        """At the end of the program, for a producer that nobody closed: try, and say what is lost."""
        producer = self._producer
        if producer is None:
            return
        left = producer.flush(ABANDONED_S_MAX)
        if left:
            logger.error("a producer was never closed: %d records are lost", left)
        self._end(producer)

    def _end(self, producer: Producer) -> None:
        self._stopping.set()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()  # the collector of garbage may have come by in that very thread
        producer.purge()
        producer.poll(0)
        self._after_poll()
        self._producer = None
        logger.info("closed")


def _headers(record: Record) -> list[tuple[str, bytes | str | None]]:
    headers = record.headers
    return list(headers.items() if isinstance(headers, Mapping) else headers)
