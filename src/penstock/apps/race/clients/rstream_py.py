"""`python -m penstock.apps.race.clients.rstream_py HOST PORT COUNT`: rstream on a RabbitMQ stream."""

from __future__ import annotations

import asyncio
import sys

from rstream import AMQPMessage, Consumer, ConsumerOffsetSpecification, MessageContext, OffsetType, Producer

from penstock.apps.race.clients.timing import report
from penstock.apps.race.payload import payload

STREAM, READER = "race", "reader"
SIZE = 1024
AT_ONCE = 500


def main(host: str, port: str, count: int) -> None:
    value = payload(SIZE)
    asked = {"host": host, "port": int(port), "username": "guest", "password": "guest"}

    async def produce() -> None:
        confirmed = asyncio.Event()
        seen = 0

        async def on_confirm(status: object) -> None:
            nonlocal seen
            if not status.is_confirmed:  # type: ignore[attr-defined]
                raise SystemExit("a message was not confirmed")
            seen += 1
            if seen == count:
                confirmed.set()

        async with Producer(**asked) as producer:
            await producer.create_stream(STREAM, exists_ok=True)
            for _ in range(count // AT_ONCE):
                lot = [AMQPMessage(body=value) for _ in range(AT_ONCE)]
                await producer.send_batch(STREAM, lot, on_publish_confirm=on_confirm)
            await confirmed.wait()

    async def consume() -> None:
        consumer = Consumer(**asked)
        done = asyncio.Event()
        seen = 0

        async def on_message(_message: object, context: MessageContext) -> None:
            nonlocal seen
            seen += 1
            if not seen % AT_ONCE:
                await consumer.store_offset(stream=STREAM, subscriber_name=READER, offset=context.offset)
            if seen == count:
                done.set()

        await consumer.start()
        first = ConsumerOffsetSpecification(OffsetType.FIRST, None)
        await consumer.subscribe(STREAM, on_message, offset_specification=first, subscriber_name=READER)
        await done.wait()
        await consumer.close()

    with asyncio.Runner() as runner:
        report(count, lambda: runner.run(produce()), lambda: runner.run(consume()))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
