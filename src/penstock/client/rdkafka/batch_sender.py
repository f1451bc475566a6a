"""Writes batches of serialized records from asyncio with one future per batch: for gateways with many small batches.

    sender = BatchSender(acks="all")
    await sender.start()
    outcomes = await sender.send("orders", [(None, b"kettle", None, None, None)])

A batch completes with one outcome per record, in their order: its position, or the error. The records of one sender
reach a partition in the order in which they were sent. Nothing is reported elsewhere: the caller reads all outcomes.
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, TypeVar, Unpack

from confluent_kafka import KafkaError, KafkaException

from penstock.client.errors import ClientError, Refused
from penstock.client.messages import HeaderValue
from penstock.client.options import ProducerOptions
from penstock.client.rdkafka.consumer_progress import ConsumerProgress
from penstock.client.rdkafka.rdkafka_producer import RdkafkaProducer, rejection
from penstock.client.rdkafka.translation import translate
from penstock.client.rdkafka.worker_thread import in_thread, new_thread

logger = logging.getLogger("penstock.client.rdkafka.batch_sender")

Result = TypeVar("Result")

ANY_PARTITION = -1
"""librdkafka selects the partition by key."""

RawRecord = tuple[bytes | None, bytes | None, list[tuple[str, HeaderValue]] | None, int | None, int | None]
"""A serialized record: key, value, headers, partition, timestamp in milliseconds. A tuple, because there are many."""

RawPosition = tuple[int, int | None, int | None]
"""Position of a written record: partition, offset (None without acknowledgements), timestamp in milliseconds."""

SendOutcome = RawPosition | ClientError


class _PendingBatch:
    """The outcomes of one batch so far.

    The polling thread counts reports, the loop counts rejections: neither writes the counter of the other.
    """

    __slots__ = ("_expected", "_explain", "_finished", "_reported", "_topic", "failed", "future", "outcomes")

    def __init__(
        self,
        topic: str,
        count: int,
        future: asyncio.Future[list[SendOutcome]],
        finished: list[_PendingBatch],
        explain: Callable[[ClientError], ClientError],
    ) -> None:
        self._finished = finished
        self._explain = explain
        self._topic = topic
        self._expected = count
        self._reported = 0
        self.future = future
        self.outcomes: list[Any] = [None] * count
        self.failed = False

    def reject(self, index: int, error: ClientError) -> None:
        """A record that was not queued."""
        self.outcomes[index] = error
        self.failed = True
        self._expected -= 1

    def report(self, index: int, error: KafkaError | None, message: Any) -> None:
        """Record a delivery report. Called once per record, so without calls of its own."""
        if error is not None:
            self.outcomes[index] = self._explain(translate(error, self._topic))
            self.failed = True
        else:
            offset = message.offset()
            kind, timestamp_ms = message.timestamp()
            self.outcomes[index] = (
                message.partition(),
                offset if offset is not None and offset >= 0 else None,
                timestamp_ms if kind else None,
            )
        self._reported += 1
        if self._reported == self._expected:
            self._finished.append(self)

    @property
    def is_complete(self) -> bool:
        return self._reported == self._expected


class BatchSender:
    """One librdkafka producer. Its serializer options have no effect: records are bytes."""

    def __init__(self, **options: Unpack[ProducerOptions]) -> None:
        self._producer = RdkafkaProducer(options, self._after_poll)
        self._thread = new_thread("sender-calls")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._finished: list[_PendingBatch] = []

    async def start(self) -> None:
        """Connect to the broker. Raises Unreachable."""
        self._loop = asyncio.get_running_loop()
        await in_thread(self._thread, self._producer.open)

    async def partition_count(self, topic: str) -> int:
        """Partition count of a topic, cached for a minute. Raises NotFound."""
        return await in_thread(self._thread, functools.partial(self._producer.partitions.count, topic))

    def send(
        self, topic: str, records: Sequence[RawRecord], *, strict: bool = False
    ) -> asyncio.Future[list[SendOutcome]]:
        """Queue a batch without waiting. The future never fails, and completes even if nobody waits for it.

        `strict`: raise the error of a record that cannot be queued, for transactions, which are aborted then.
        """
        assert self._loop is not None, "not started"
        explain = self._producer.library_errors.explain
        pending = _PendingBatch(topic, len(records), self._loop.create_future(), self._finished, explain)
        produce, report = self._producer.library_producer.produce, pending.report
        for index, (key, value, headers, partition, timestamp_ms) in enumerate(records):
            number = ANY_PARTITION if partition is None else partition
            delivered = functools.partial(report, index)
            try:
                if headers is None and timestamp_ms is None:
                    produce(topic, value, key, number, delivered)
                else:
                    timed: dict[str, Any] = {} if timestamp_ms is None else {"timestamp": timestamp_ms}
                    produce(topic, value, key, number, delivered, headers=headers or [], **timed)
            except (BufferError, KafkaException, TypeError, ValueError, OverflowError) as raised:
                error = _rejected(topic, raised)
                if strict:
                    raise error from raised
                pending.reject(index, error)
        if pending.is_complete:  # nothing was queued, or all reports came before the last rejection
            self._loop.call_soon_threadsafe(self._complete, [pending])
        return pending.future

    async def run_transaction(
        self, write: Callable[[], Result], progress: ConsumerProgress | None = None
    ) -> Result:
        """One transaction around what `write` sends, with the consumer's offsets. Raises Aborted, Fenced."""

        def run() -> Result:
            with self._producer.transaction(progress):
                return write()

        return await in_thread(self._thread, run)

    async def close(self) -> None:
        """Wait for deliveries for some seconds, then close; logs how many records are given up."""
        await in_thread(self._thread, self._producer.abandon)
        self._thread.shutdown()

    # -- in the polling thread

    def _after_poll(self) -> None:
        if self._finished and self._loop is not None:
            finished = self._finished[:]
            del self._finished[: len(finished)]
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._complete, finished)

    def _complete(self, finished: list[_PendingBatch]) -> None:
        for pending in finished:
            if pending.future.done():
                continue
            if pending.failed:
                _log_failures(pending.outcomes)
            pending.future.set_result(pending.outcomes)


def _rejected(topic: str, error: Exception) -> ClientError:
    if isinstance(error, BufferError):
        return Refused(f"{topic}: the send queue is full", retriable=True)
    return rejection(topic, error)


def _log_failures(outcomes: Sequence[SendOutcome]) -> None:
    failures = [one for one in outcomes if isinstance(one, ClientError)]
    logger.error(
        "%d of %d records not delivered; the first: %s",
        len(failures),
        len(outcomes),
        failures[0],
        extra={"code": failures[0].code},
    )
