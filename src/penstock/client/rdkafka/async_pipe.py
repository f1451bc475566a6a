"""`pipe` for asyncio: read, transform, write and commit as one. Never leaves a step half done."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from penstock.client.errors import Aborted
from penstock.client.messages import Message, Record
from penstock.client.rdkafka.async_consumer import AsyncConsumer
from penstock.client.rdkafka.async_producer import AsyncProducer
from penstock.client.rdkafka.pipe import WAIT_S, run_again


async def async_pipe(
    consumer: AsyncConsumer,
    producer: AsyncProducer,
    transform: Callable[[Message], Awaitable[Iterable[Record]]],
    *,
    records_max: int = 500,
) -> int:
    """As `pipe`, with a coroutine that transforms; the messages of a transaction are transformed one after another."""
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
            run_again(error)
        if consumer.is_finished:
            return count
