"""From topic to topic in transactions: every message once, failures leave nothing behind."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from penstock import (
    Admin,
    AsyncConsumer,
    AsyncProducer,
    Consumer,
    Message,
    Producer,
    Record,
    async_pipe,
    pipe,
)
from penstock.testing import Broker


def ends(broker: Broker, source: str, name: str) -> tuple[Consumer, Producer]:
    options: dict[str, Any] = {"bootstrap": broker.bootstrap, "delivery": "exactly_once"}
    return (
        Consumer(source, group=source, until_end=True, value_serializer="string", **options),
        Producer(transactional_id=name, value_serializer="string", **options),
    )


def test_every_message_once_over_failures(broker: Broker, new_topic: Callable[..., str]) -> None:
    source, target = new_topic(2), new_topic(2)
    with Producer(bootstrap=broker.bootstrap, partitioning="round_robin") as plain:
        for number in range(200):
            plain.send(source, str(number))
    failing = iter([True, False, False])

    def transform(message: Message) -> Iterable[Record]:
        if message.value.endswith("99") and next(failing):
            raise ZeroDivisionError
        yield Record(target, message.value, partition=message.partition)

    consumer, producer = ends(broker, source, source)
    with consumer, producer:
        with pytest.raises(ZeroDivisionError):
            pipe(consumer, producer, transform, records_max=30)
        pipe(consumer, producer, transform, records_max=30)
    with Consumer(target, bootstrap=broker.bootstrap, until_end=True, value_serializer="string") as reader:
        assert sorted(int(message.value) for message in reader) == list(range(200))
    with Admin(bootstrap=broker.bootstrap) as admin:
        assert sum(row.lag for row in admin.lag(source)) == 0


def test_the_same_with_asyncio(broker: Broker, new_topic: Callable[..., str]) -> None:
    source, target = new_topic(2), new_topic(2)
    with Producer(bootstrap=broker.bootstrap, partitioning="round_robin") as plain:
        for number in range(50):
            plain.send(source, str(number))

    async def transform(message: Message) -> Iterable[Record]:
        return [Record(target, message.value), Record(target, message.value)]

    async def play() -> int:
        options: dict[str, Any] = {"bootstrap": broker.bootstrap, "delivery": "exactly_once"}
        async with (
            AsyncConsumer(source, group=source, until_end=True, **options) as consumer,
            AsyncProducer(transactional_id=source, **options) as producer,
        ):
            return await async_pipe(consumer, producer, transform, records_max=20)

    assert asyncio.run(play()) == 50
    with Consumer(target, bootstrap=broker.bootstrap, until_end=True) as reader:
        assert sorted(int(message.value) for message in reader) == sorted([*range(50), *range(50)])


def test_nothing_to_read_is_an_end(broker: Broker, topic: str) -> None:
    consumer, producer = ends(broker, topic, topic)
    with consumer, producer:
        assert pipe(consumer, producer, lambda message: []) == 0
