"""Producer: writes records to topics. Every failed delivery is reported.

    with Producer(value_serializer="json") as producer:
        producer.send("orders", {"item": "kettle"}, key="c42")

`send` queues a record and returns a future of its position; `flush`, `close` and the end of the `with` block raise
DeliveryFailed for failed records whose future was not read.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from penstock.client.errors import ClientError
from penstock.client.messages import Placed, Record, RecordFields
from penstock.client.options import ProducerOptions
from penstock.client.rdkafka.rdkafka_producer import QueueFull, RdkafkaProducer

if TYPE_CHECKING:
    from penstock.client.rdkafka.consumer import Consumer


class Delivery(Future[Placed]):
    """Future of a record's position. Reading the result marks its failure as reported."""

    def __init__(self, producer: RdkafkaProducer) -> None:
        super().__init__()
        self._rdkafka_producer = producer
        self.set_running_or_notify_cancel()  # a queued record cannot be cancelled

    def settle(self, outcome: Placed | ClientError) -> None:
        if isinstance(outcome, ClientError):
            self.set_exception(outcome)
        else:
            self.set_result(outcome)

    def result(self, timeout: float | None = None) -> Placed:
        try:
            return super().result(timeout)
        except ClientError as error:
            self._rdkafka_producer.seen(error)
            raise

    def exception(self, timeout: float | None = None) -> BaseException | None:
        error = super().exception(timeout)
        if isinstance(error, ClientError):
            self._rdkafka_producer.seen(error)
        return error


class Producer:
    """Writes records. Thread-safe, except that only one transaction can be open at a time."""

    def __init__(self, **options: Unpack[ProducerOptions]) -> None:
        self._rdkafka_producer = RdkafkaProducer(options)
        self._rdkafka_producer.open()
        self._unclosed = weakref.finalize(self, self._rdkafka_producer.abandon)

    def send(self, topic: str, value: Any, **fields: Unpack[RecordFields]) -> Delivery:
        """Queue a record; blocks only while the queue is full. Returns a future of its position."""
        return self.send_record(Record(topic, value, **fields))

    def send_record(self, record: Record) -> Delivery:
        """Queue a `Record`; see `send`."""
        delivery = Delivery(self._rdkafka_producer)
        encoded = self._rdkafka_producer.encode(record)
        while True:
            try:
                self._rdkafka_producer.enqueue(encoded, delivery.settle)
                return delivery
            except QueueFull:
                self._rdkafka_producer.wait_for_room()

    def send_and_wait(self, topic: str, value: Any, **fields: Unpack[RecordFields]) -> Placed:
        """Write one record and return its position once acknowledged."""
        return self.send(topic, value, **fields).result()

    def flush(self, seconds_max: float | None = None) -> None:
        """Wait for all deliveries. Raises DeliveryFailed, TimedOut."""
        self._rdkafka_producer.flush(seconds_max)

    @property
    def waiting(self) -> int:
        """Number of records not yet acknowledged or failed."""
        return self._rdkafka_producer.waiting

    @contextmanager
    def transaction(self, consumer: Consumer | None = None) -> Iterator[None]:
        """Run the block as one transaction: all its records become visible, or none. Raises Aborted, Fenced.

        With a consumer, its offsets are committed in the same transaction; if the transaction aborts, the consumer
        returns the same messages again.
        """
        with self._rdkafka_producer.transaction(consumer.rdkafka_consumer if consumer is not None else None):
            yield

    def close(self) -> None:
        """Wait for all deliveries, then close. Raises DeliveryFailed."""
        self._unclosed.detach()
        self._rdkafka_producer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.close()
        except ClientError as failure:
            if error is None:
                raise
            error.add_note(f"Also failed: {failure}")
