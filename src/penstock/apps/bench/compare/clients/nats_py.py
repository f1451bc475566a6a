"""Client row: nats-py on JetStream.

`python -m penstock.apps.bench.compare.clients.nats_py HOST PORT COUNT STREAM`
"""

from __future__ import annotations

import asyncio
import sys

import nats

from penstock.apps.bench.compare.clients.timing import report
from penstock.apps.bench.harness.payload import payload

SIZE = 1024
AT_ONCE = 500


def main(host: str, port: str, count: int, stream: str) -> None:
    value = payload(SIZE)
    subject = f"{stream}.in"
    with asyncio.Runner() as runner:
        client = runner.run(nats.connect(f"nats://{host}:{port}"))
        jetstream = client.jetstream()
        runner.run(jetstream.add_stream(name=stream, subjects=[subject]))
        reader = runner.run(jetstream.pull_subscribe(subject, durable="workers"))

        async def produce(messages: int) -> None:
            for _ in range(messages // AT_ONCE):
                await asyncio.gather(*(jetstream.publish(subject, value) for _ in range(AT_ONCE)))

        async def consume(messages: int) -> None:
            seen = 0
            while seen < messages:
                found = await reader.fetch(min(AT_ONCE, messages - seen), timeout=10)
                for message in found:
                    await message.ack()
                seen += len(found)
            await client.flush()

        report(count, lambda some: runner.run(produce(some)), lambda some: runner.run(consume(some)))
        runner.run(jetstream.delete_stream(stream))
        runner.run(client.close())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
