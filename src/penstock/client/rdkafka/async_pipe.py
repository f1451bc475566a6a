"""`pipe` for asyncio: read, transform, write and commit in one transaction."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from penstock.client.errors import Aborted
from penstock.client.messages import Message, Record
from penstock.client.rdkafka.async_consumer import AsyncConsumer
from penstock.client.rdkafka.async_producer import AsyncProducer
from penstock.client.rdkafka.pipe import WAIT_S, log_retry


async def async_pipe(
    consumer: AsyncConsumer,
    producer: AsyncProducer,
    transform: Callable[[Message], Awaitable[Iterable[Record]]],
    *,
    records_max: int = 500,
) -> int:
    """Like `pipe`, with a coroutine as `transform`; it processes the messages of a transaction one at a time."""
    count = 0
    while True:
        messages = await consumer.batch(records_max, WAIT_S)
        try:
            if messages:
                async with producer.transaction(consumer):
                    for message in messages:
                        for record in await transform(message):
                            await producer.send_record(record)
                count += len(messages)
        except Aborted as error:
            log_retry(error)
        if consumer.is_finished:
            return count
