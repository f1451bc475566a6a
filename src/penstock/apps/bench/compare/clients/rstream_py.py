"""Client row: rstream on a RabbitMQ stream.

`python -m penstock.apps.bench.compare.clients.rstream_py HOST PORT COUNT STREAM`
"""

from __future__ import annotations

import asyncio
import sys

from rstream import AMQPMessage, Consumer, ConsumerOffsetSpecification, MessageContext, OffsetType, Producer

from penstock.apps.bench.compare.clients.timing import report
from penstock.apps.bench.harness.payload import payload

READER = "reader"
SIZE = 1024
AT_ONCE = 500


class StreamClient:
    """A producer and a consumer that stay connected during both phases."""

    def __init__(self, host: str, port: str, stream: str) -> None:
        settings = {"host": host, "port": int(port), "username": "guest", "password": "guest"}
        self._stream = stream
        self._value = payload(SIZE)
        self._producer, self._consumer = Producer(**settings), Consumer(**settings)
        self._wanted = self._seen = self._awaited = 0
        self._arrived = asyncio.Event()
        self._is_reading = False

    async def start(self) -> None:
        await self._producer.start()
        await self._producer.create_stream(self._stream, exists_ok=True)
        await self._consumer.start()

    async def stop(self) -> None:
        await self._consumer.close()
        await self._producer.delete_stream(self._stream)
        await self._producer.close()

    async def _await(self, count: int) -> None:
        self._awaited = count
        self._arrived.clear()
        if self._seen < count:
            await self._arrived.wait()

    def _count(self) -> None:
        self._seen += 1
        if self._seen == self._awaited:
            self._arrived.set()

    async def _on_confirm(self, status: object) -> None:
        if not status.is_confirmed:  # type: ignore[attr-defined]
            raise SystemExit("a message was not confirmed")
        self._count()

    async def produce(self, messages: int) -> None:
        self._seen, self._awaited = 0, messages
        self._arrived.clear()
        for _ in range(messages // AT_ONCE):
            batch = [AMQPMessage(body=self._value) for _ in range(AT_ONCE)]
            await self._producer.send_batch(self._stream, batch, on_publish_confirm=self._on_confirm)
        await self._await(messages)

    async def _on_message(self, _message: object, context: MessageContext) -> None:
        self._count()
        if not self._seen % AT_ONCE:
            await self._consumer.store_offset(
                stream=self._stream, subscriber_name=READER, offset=context.offset
            )

    async def consume(self, messages: int) -> None:
        """Continues the count of earlier messages, since the server pushes without requests."""
        if not self._is_reading:
            self._is_reading, self._seen = True, 0
            first = ConsumerOffsetSpecification(OffsetType.FIRST, None)
            await self._consumer.subscribe(
                self._stream, self._on_message, offset_specification=first, subscriber_name=READER
            )
            self._wanted = 0
        self._wanted += messages
        await self._await(self._wanted)


def main(host: str, port: str, count: int, stream: str) -> None:
    with asyncio.Runner() as runner:
        runner.get_loop()
        client = StreamClient(host, port, stream)
        runner.run(client.start())
        report(
            count,
            lambda some: runner.run(client.produce(some)),
            lambda some: runner.run(client.consume(some)),
        )
        runner.run(client.stop())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
