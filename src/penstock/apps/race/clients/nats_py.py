"""`python -m penstock.apps.race.clients.nats_py HOST PORT COUNT`: nats-py on JetStream."""

from __future__ import annotations

import asyncio
import sys

import nats

from penstock.apps.race.clients.timing import report
from penstock.apps.race.payload import payload

SUBJECT = "race.in"
SIZE = 1024
AT_ONCE = 500


def main(host: str, port: str, count: int) -> None:
    value = payload(SIZE)
    with asyncio.Runner() as runner:
        client = runner.run(nats.connect(f"nats://{host}:{port}"))
        stream = client.jetstream()
        runner.run(stream.add_stream(name="race", subjects=[SUBJECT]))

        async def produce() -> None:
            for _ in range(count // AT_ONCE):
                await asyncio.gather(*(stream.publish(SUBJECT, value) for _ in range(AT_ONCE)))

        async def consume() -> None:
            reader = await stream.pull_subscribe(SUBJECT, durable="workers")
            seen = 0
            while seen < count:
                messages = await reader.fetch(AT_ONCE, timeout=10)
                for message in messages:
                    await message.ack()
                seen += len(messages)
            await client.flush()

        report(count, lambda: runner.run(produce()), lambda: runner.run(consume()))
        runner.run(client.close())


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
