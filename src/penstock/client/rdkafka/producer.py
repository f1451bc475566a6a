"""Producer: writes records to topics. Never gives up a record in idle_timer.

    with Producer(value_serializer="json") as producer:
        producer.send("orders", {"item": "kettle"}, key="c42")

`send` hands a record over and returns a future of its place; `flush`, `close` and the end of the `with` block raise
DeliveryFailed for records that failed and whose future nobody looked at.
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
    """The place of a record, once it is known. Whoever asks for it has been told if it failed."""

    def __init__(self, producer: RdkafkaProducer) -> None:
        super().__init__()
        self._rdkafka_producer = producer
        self.set_running_or_notify_cancel()  # a record that was handed over cannot be taken back

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
    """Writes records. Safe to use from several threads, except for transactions, of which there is one at a time."""

    def __init__(self, **options: Unpack[ProducerOptions]) -> None:
        self._rdkafka_producer = RdkafkaProducer(options)
        self._rdkafka_producer.open()
        self._unclosed = weakref.finalize(self, self._rdkafka_producer.abandon)

    def send(self, topic: str, value: Any, **fields: Unpack[RecordFields]) -> Delivery:
        """Hand a record over; waits only where the queue is full. The future tells its place, or why it failed."""
        return self.send_record(Record(topic, value, **fields))

    def send_record(self, record: Record) -> Delivery:
        """The same for a record that is made already."""
        delivery = Delivery(self._rdkafka_producer)
        encoded = self._rdkafka_producer.encode(record)
        while True:
            try:
                self._rdkafka_producer.enqueue(encoded, delivery.settle)
                return delivery
            except QueueFull:
                self._rdkafka_producer.wait_for_room()

    def send_and_wait(self, topic: str, value: Any, **fields: Unpack[RecordFields]) -> Placed:
        """Write one record and return its place once it is acknowledged."""
        return self.send(topic, value, **fields).result()

    def flush(self, seconds_max: float | None = None) -> None:
        """Wait until every record is settled. Raises DeliveryFailed, TimedOut."""
        self._rdkafka_producer.flush(seconds_max)

    @property
    def waiting(self) -> int:
        """How many records are not acknowledged yet."""
        return self._rdkafka_producer.waiting

    @contextmanager
    def transaction(self, consumer: Consumer | None = None) -> Iterator[None]:
        """All records sent inside are seen by readers, or none. Raises Aborted if it did not happen, Fenced.

        With a consumer, what it has handed out is committed in the same transaction; if that does not happen, the
        consumer goes back and hands the same messages out again.
        """
        with self._rdkafka_producer.transaction(consumer.rdkafka_consumer if consumer is not None else None):
            yield

    def close(self) -> None:
        """Wait until every record is settled, then end. Raises DeliveryFailed."""
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
            error.add_note(f"Besides: {failure}")
