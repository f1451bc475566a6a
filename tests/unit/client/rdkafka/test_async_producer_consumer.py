"""AsyncProducer, AsyncConsumer and AsyncAdmin against a real broker: what differs from their blocking siblings."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any
from uuid import uuid4

import pytest

from penstock import AsyncAdmin, AsyncConsumer, AsyncProducer
from penstock.client.errors import (
    BadArgument,
    DeliveryFailed,
    IllegalState,
    NotFound,
    Refused,
    SerializationFailed,
    Unreachable,
)
from penstock.testing import Broker

WAIT_S = 30.0


async def read(broker: Broker, topic: str, **options: Any) -> list[Any]:
    async with AsyncConsumer(topic, bootstrap=broker.bootstrap, until_end=True, **options) as consumer:
        return [message.value async for message in consumer]


def test_there_and_back(broker: Broker, topic: str) -> None:
    async def play() -> None:
        async with AsyncProducer(bootstrap=broker.bootstrap, value_serializer="json") as producer:
            assert (await producer.send_and_wait(topic, {"n": 0}, key="k")).offset == 0
            waiting = [await producer.send(topic, {"n": number}) for number in range(1, 1_000)]
            placed = await asyncio.gather(*waiting)
            assert [one.offset for one in placed] == list(range(1, 1_000))
            assert producer.waiting == 0
        assert await read(broker, topic, value_serializer="json") == [
            {"n": number} for number in range(1_000)
        ]

    asyncio.run(play())


def test_a_full_queue_waits_and_the_loop_goes_on(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)

    async def play() -> None:
        options: dict[str, Any] = {"queue_records_max": 5, "linger_ms": 0, "partitioning": "round_robin"}
        async with AsyncProducer(bootstrap=broker.bootstrap, **options) as producer:

            async def send(name: str) -> None:
                for number in range(100):
                    await producer.send(topic, f"{name}{number}")

            await asyncio.gather(send("a"), send("b"), send("c"))
        assert len(await read(broker, topic)) == 300

    asyncio.run(play())


def test_failures_are_told(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(max_message_bytes="1000")

    async def play() -> None:
        async with AsyncProducer(bootstrap=broker.bootstrap) as producer:
            with pytest.raises(Refused, match="MSG_SIZE_TOO_LARGE"):
                await producer.send_and_wait(topic, b"x" * 2_000)
            told = await asyncio.gather(await producer.send(topic, b"x" * 2_000), return_exceptions=True)
            assert isinstance(told[0], Refused)
            await producer.flush(WAIT_S)
            await producer.send(topic, b"x" * 2_000)
            with pytest.raises(DeliveryFailed, match="1 record was"):
                await producer.flush(WAIT_S)
            with pytest.raises(SerializationFailed):
                await producer.send(topic, 7)
        with pytest.raises(DeliveryFailed):
            async with AsyncProducer(bootstrap=broker.bootstrap) as producer:
                await producer.send(topic, b"x" * 2_000)
        with pytest.raises(KeyError):
            async with AsyncProducer(bootstrap=broker.bootstrap) as producer:
                await producer.send(topic, b"x" * 2_000)
                raise KeyError("of the program")

    asyncio.run(play())


def test_a_cancelled_wait_loses_nothing(broker: Broker, topic: str) -> None:
    async def play() -> None:
        async with (
            AsyncProducer(bootstrap=broker.bootstrap) as producer,
            AsyncConsumer(topic, bootstrap=broker.bootstrap, group=topic) as consumer,
        ):
            found: list[bytes] = []
            for number in range(20):
                await producer.send(topic, str(number))
            async with asyncio.timeout(WAIT_S):
                while len(found) < 20:
                    try:
                        async with asyncio.timeout(0.005):
                            found.append((await anext(consumer)).value)
                    except TimeoutError:
                        continue
            assert found == [str(number).encode() for number in range(20)]

    asyncio.run(play())


def test_closing_does_not_wait_for_a_long_poll(broker: Broker, topic: str) -> None:
    async def play() -> None:
        consumer = AsyncConsumer(topic, bootstrap=broker.bootstrap)
        await consumer.start()
        polling = asyncio.create_task(consumer.poll(86_400))
        await asyncio.sleep(0)
        polling.cancel()
        await consumer.close()
        with pytest.raises(asyncio.CancelledError):
            await polling

    asyncio.run(play())


def test_commits(broker: Broker, topic: str) -> None:
    async def play() -> None:
        async with AsyncProducer(bootstrap=broker.bootstrap) as producer:
            for number in range(6):
                await producer.send(topic, str(number))
        options: dict[str, Any] = {"bootstrap": broker.bootstrap, "group": topic, "until_end": True}
        async with AsyncConsumer(topic, commit="manual", **options) as consumer:
            first = await anext(consumer)
            await anext(consumer)
            await consumer.commit(first)
            assert [place.offset for place in await consumer.committed()] == [1]
            await consumer.commit()
            assert [place.offset for place in await consumer.committed()] == [2]
            await consumer.seek(topic, 0, 5)
            assert [message.value async for message in consumer] == [b"5"]
            assert consumer.has_ended
        with pytest.raises(ZeroDivisionError):
            async with AsyncConsumer(topic, **options) as consumer:
                await anext(consumer)
                await anext(consumer)
                raise ZeroDivisionError
        async with AsyncConsumer(topic, **options) as consumer:
            assert [message.value async for message in consumer] == [b"3", b"4", b"5"]

    asyncio.run(play())


def test_transactions_from_topic_to_topic(broker: Broker, new_topic: Callable[..., str]) -> None:
    source, target = new_topic(), new_topic()

    async def play() -> None:
        options: dict[str, Any] = {"bootstrap": broker.bootstrap, "delivery": "exactly_once"}
        async with AsyncProducer(bootstrap=broker.bootstrap) as plain:
            for number in range(4):
                await plain.send(source, str(number))
        async with (
            AsyncProducer(transactional_id=source, **options) as producer,
            AsyncConsumer(source, group=source, until_end=True, **options) as consumer,
        ):

            async def copy(*, fails: bool) -> None:
                async with producer.transaction(consumer):
                    for message in await consumer.batch(2, WAIT_S):
                        await producer.send(target, message.value)
                    assert not fails

            with pytest.raises(AssertionError):
                await copy(fails=True)
            while not consumer.is_finished:
                await copy(fails=False)
            assert [place.offset for place in await consumer.committed()] == [4]
        assert await read(broker, target) == [b"0", b"1", b"2", b"3"]

    asyncio.run(play())


def test_the_broker_asked_for_topics_and_groups(broker: Broker) -> None:
    async def play() -> None:
        name = f"client-{uuid4().hex[:8]}"
        async with AsyncAdmin(bootstrap=broker.bootstrap) as admin:
            assert await admin.create_topic(name, 2)
            assert (await admin.describe_topic(name)).topic == name
            assert name in [topic.topic for topic in await admin.topics()]
            await admin.delete_topic(name)
            with pytest.raises(NotFound):
                await admin.lag(f"{name}-absent")

    asyncio.run(play())


def test_wrong_moments_and_wrong_options(broker: Broker, topic: str) -> None:
    with pytest.raises(BadArgument, match="Did you mean 'group'"):
        AsyncConsumer(topic, grupo="g")  # type: ignore[call-arg]
    with pytest.raises(BadArgument, match="Did you mean 'acks'"):
        AsyncProducer(ack="all")  # type: ignore[call-arg]
    with pytest.raises(BadArgument, match="Did you mean 'bootstrap'"):
        AsyncAdmin(bootstraps="x")  # type: ignore[call-arg]

    async def play() -> None:
        with pytest.raises(IllegalState):
            await AsyncAdmin(bootstrap=broker.bootstrap).topics()
        with pytest.raises(IllegalState):
            await AsyncProducer(bootstrap=broker.bootstrap).send(topic, b"x")
        with pytest.raises(IllegalState):
            await AsyncConsumer(topic, bootstrap=broker.bootstrap).poll(0)
        with pytest.raises(Unreachable):
            await AsyncProducer(bootstrap="127.0.0.1:1", connect_s_max=0.1).start()
        await AsyncProducer(bootstrap=broker.bootstrap).close()
        await AsyncConsumer(topic, bootstrap=broker.bootstrap).close()

    asyncio.run(play())
