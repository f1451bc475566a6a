"""AsyncConsumer: Consumer for asyncio. Never blocks the loop.

    async with AsyncConsumer("orders", group="billing", value_serializer="json") as consumer:
        async for message in consumer:
            await bill(message.value)

Messages count as handled as with Consumer. Cancelling a call loses no message.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Sequence
from types import TracebackType
from typing import Self, Unpack

from penstock.client.messages import Message
from penstock.client.options import ConsumerOptions
from penstock.client.rdkafka.rdkafka_consumer import IdleTimer, RdkafkaConsumer
from penstock.client.rdkafka.worker_thread import in_thread, new_thread, threaded


class AsyncConsumer:
    """Reads messages. For one task at a time."""

    def __init__(self, topics: str | Sequence[str], **options: Unpack[ConsumerOptions]) -> None:
        self.blocking = RdkafkaConsumer(topics, options)
        self.thread = new_thread("consumer")
        self._filling: asyncio.Future[None] | None = None

    committed = threaded(RdkafkaConsumer.committed)
    seek = threaded(RdkafkaConsumer.seek)

    async def poll(self, wait_s: float = 1.0) -> Message | None:
        """The next message, or None after `wait_s`. Raises SerializationFailed; the next call continues after it."""
        return next(iter(await self.batch(1, wait_s)), None)

    async def batch(self, records_max: int = 500, wait_s: float = 1.0) -> list[Message]:
        """Up to `records_max` messages, as soon as there are any; empty after `wait_s`."""
        if self._filling is not None or not self.blocking.has_ahead:
            await self._fill(records_max, wait_s)
        return self.blocking.take(records_max)

    async def _fill(self, records_max: int, wait_s: float) -> None:
        """Wait in the thread. After a cancellation the next call continues the same wait."""
        if self._filling is None:
            filling = functools.partial(self.blocking.fill, records_max, wait_s)
            self._filling = asyncio.ensure_future(in_thread(self.thread, filling))
        try:
            await asyncio.shield(self._filling)
        finally:
            if self._filling.done():
                self._filling = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Message:
        """The next message. Waits without a limit unless `until_end` or `idle_s_max` is set."""
        idle_timer = IdleTimer(self.blocking)
        while True:
            message = await self.poll(idle_timer.wait_s)
            if message is not None:
                return message
            if idle_timer.is_over:
                raise StopAsyncIteration

    @property
    def has_ended(self) -> bool:
        """Whether all records of all assigned partitions have been returned."""
        return self.blocking.has_ended

    @property
    def is_finished(self) -> bool:
        """Whether `until_end` is set and the end has been reached."""
        return self.blocking.is_finished

    async def commit(self, *messages: Message) -> None:
        """Commit up to these messages, or up to all returned messages; returns once durable."""
        await in_thread(self.thread, functools.partial(self.blocking.commit, messages or None))

    async def start(self) -> None:
        """Connect, then join the group or assign the partitions. Raises Unreachable, NotFound."""
        await in_thread(self.thread, self.blocking.open)

    async def close(self, *, handled: bool = False) -> None:
        """Leave the group. The messages returned last count as handled only with `handled`."""
        self.blocking.stop_waiting()
        await in_thread(self.thread, functools.partial(self.blocking.close, handled=handled))
        self.thread.shutdown()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close(handled=error is None)
