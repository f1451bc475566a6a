"""asyncio clients: several tasks write while another one reads. Ends by itself. Needs a running broker."""

from __future__ import annotations

import asyncio
import sys

from penstock import AsyncAdmin, AsyncConsumer, AsyncProducer

TOPIC = "example-readings"
SENSORS = 3
READINGS = 5
READ_S_MAX = 60


async def measure(producer: AsyncProducer, sensor: int) -> None:
    for celsius in range(20, 20 + READINGS):
        await producer.send(TOPIC, {"sensor": sensor, "celsius": celsius}, key=f"sensor-{sensor}")


async def watch(consumer: AsyncConsumer) -> float:
    warmest = 0.0
    for _ in range(SENSORS * READINGS):
        message = await anext(consumer)
        warmest = max(warmest, message.value["celsius"])
    return warmest


async def main() -> None:
    async with AsyncAdmin() as admin:
        await admin.create_topic(TOPIC, partitions=2, if_not_exists=True)
    async with (
        AsyncProducer(value_serializer="json") as producer,
        AsyncConsumer(TOPIC, reset="latest", value_serializer="json") as consumer,
    ):
        watching = asyncio.create_task(watch(consumer))
        await asyncio.gather(*(measure(producer, sensor) for sensor in range(SENSORS)))
        try:
            warmest = await asyncio.wait_for(watching, READ_S_MAX)
        except TimeoutError:
            sys.exit(
                f"Not all readings of topic {TOPIC} arrived within {READ_S_MAX} s: see the log of the broker."
            )
        print(f"warmest of {SENSORS * READINGS} readings: {warmest}")


if __name__ == "__main__":
    asyncio.run(main())
