"""AsyncProducer: Producer for asyncio. Never blocks the loop; every failed delivery is reported.

    async with AsyncProducer(value_serializer="json") as producer:
        await producer.send("orders", {"item": "kettle"}, key="c42")

`send` returns a future of the position once the record is queued; `send_and_wait` waits for the acknowledgement.
"""

from __future__ import annotations

import asyncio
import functools
import weakref
from collections.abc import AsyncIterator, Generator
from contextlib import asynccontextmanager, suppress
from types import TracebackType
from typing import Any, Self, Unpack

from penstock.client.errors import ClientError
from penstock.client.messages import Placed, Record, RecordFields
from penstock.client.options import ProducerOptions
from penstock.client.rdkafka.async_consumer import AsyncConsumer
from penstock.client.rdkafka.rdkafka_producer import QueueFull, RdkafkaProducer
from penstock.client.rdkafka.worker_thread import in_thread, new_thread


class AsyncDelivery(asyncio.Future[Placed]):
    """Future of a record's position. Reading the result marks its failure as reported."""

    def __init__(self, producer: RdkafkaProducer) -> None:
        super().__init__()
        self._rdkafka_producer = producer

    def settle(self, outcome: Placed | ClientError) -> None:
        if self.cancelled():
            return
        if isinstance(outcome, ClientError):
            self.set_exception(outcome)
            super().exception()  # the producer reports it: silence asyncio's own warning
        else:
            self.set_result(outcome)

    def result(self) -> Placed:
        try:
            return super().result()
        except ClientError as error:
            self._rdkafka_producer.seen(error)
            raise

    def exception(self) -> BaseException | None:
        error = super().exception()
        if isinstance(error, ClientError):
            self._rdkafka_producer.seen(error)
        return error

    def __await__(self) -> Generator[Any, None, Placed]:
        try:
            return (yield from super().__await__())
        except ClientError as error:
            self._rdkafka_producer.seen(error)
            raise


class _Arrivals:
    """Passes delivery outcomes from the polling thread to the loop, in batches."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.room = asyncio.Event()
        self._settled: list[tuple[AsyncDelivery, Placed | ClientError]] = []

    def add(self, delivery: AsyncDelivery, outcome: Placed | ClientError) -> None:
        self._settled.append((delivery, outcome))

    def after_poll(self) -> None:
        loop = self.loop
        if self._settled and loop is not None:
            settled, self._settled = self._settled, []
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._settle_all, settled)

    def _settle_all(self, settled: list[tuple[AsyncDelivery, Placed | ClientError]]) -> None:
        for delivery, outcome in settled:
            delivery.settle(outcome)
        self.room.set()


class AsyncProducer:
    """Writes records. Safe for concurrent tasks, except that only one transaction can be open at a time."""

    def __init__(self, **options: Unpack[ProducerOptions]) -> None:
        self._arrivals = _Arrivals()
        self._rdkafka_producer = RdkafkaProducer(options, self._arrivals.after_poll)
        self._thread = new_thread("producer-calls")
        self._unclosed = weakref.finalize(self, self._rdkafka_producer.abandon)

    async def start(self) -> None:
        """Connect to the broker. Raises Unreachable."""
        self._arrivals.loop = asyncio.get_running_loop()
        await in_thread(self._thread, self._rdkafka_producer.open)

    async def send(self, topic: str, value: Any, **fields: Unpack[RecordFields]) -> AsyncDelivery:
        """Queue a record; waits only while the queue is full. Returns a future of its position."""
        return await self.send_record(Record(topic, value, **fields))

    async def send_record(self, record: Record) -> AsyncDelivery:
        """Queue a `Record`; see `send`."""
        producer, delivery = self._rdkafka_producer, AsyncDelivery(self._rdkafka_producer)
        if producer.is_open and producer.partitions.must_ask(record.topic):
            await in_thread(self._thread, functools.partial(producer.partitions.count, record.topic))
        encoded = producer.encode(record)
        while True:
            self._arrivals.room.clear()
            try:
                producer.enqueue(encoded, functools.partial(self._arrivals.add, delivery))
                return delivery
            except QueueFull:
                await self._arrivals.room.wait()

    async def send_and_wait(self, topic: str, value: Any, **fields: Unpack[RecordFields]) -> Placed:
        """Write one record and return its position once acknowledged."""
        return await (await self.send(topic, value, **fields))

    async def flush(self, seconds_max: float | None = None) -> None:
        """Wait for all deliveries. Raises DeliveryFailed, TimedOut."""
        await in_thread(self._thread, functools.partial(self._rdkafka_producer.flush, seconds_max))

    @property
    def waiting(self) -> int:
        """Number of records not yet acknowledged or failed."""
        return self._rdkafka_producer.waiting

    @asynccontextmanager
    async def transaction(self, consumer: AsyncConsumer | None = None) -> AsyncIterator[None]:
        """Run the block as one transaction: all its records become visible, or none. Raises Aborted, Fenced.

        With a consumer, its offsets are committed in the same transaction; if the transaction aborts, the consumer
        returns the same messages again.
        """
        blocking = self._rdkafka_producer.transaction(consumer.blocking if consumer is not None else None)
        await in_thread(self._thread, blocking.__enter__)
        try:
            yield
        except BaseException as error:
            leave = functools.partial(blocking.__exit__, type(error), error, error.__traceback__)
            await in_thread(self._thread, leave)
            raise
        await in_thread(self._thread, functools.partial(blocking.__exit__, None, None, None))

    async def close(self) -> None:
        """Wait for all deliveries, then close. Raises DeliveryFailed."""
        self._unclosed.detach()
        try:
            await in_thread(self._thread, self._rdkafka_producer.close)
        finally:
            self._thread.shutdown()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            await self.close()
        except ClientError as failure:
            if error is None:
                raise
            error.add_note(f"Also failed: {failure}")
