"""Every way into the log and out of it: doors by hand, Penstock's own clients, Kafka's clients. Never compares."""

from __future__ import annotations

import queue
import uuid
from collections.abc import Iterable
from typing import Protocol

from compat.roster import Roster, able, required
from compat.vocabulary import Sent
from contract.callers.caller import Caller, Kept, Message
from contract.callers.roster import CALLERS
from penstock import BrokerClient, Consumer, Producer
from penstock.testing import Broker

READ_S_MAX = 60.0


class Way(Protocol):
    """Puts in one message, or reads the first so many of a topic; always partition 0."""

    name: str

    def put(self, broker: Broker, topic: str, message: Message) -> int: ...

    def read(self, broker: Broker, topic: str, count: int) -> list[Kept]: ...


class DoorWay:
    """A door, by hand."""

    def __init__(self, kind: type[Caller]) -> None:
        self.name = f"{kind.door} door"
        self._kind = kind

    def put(self, broker: Broker, topic: str, message: Message) -> int:
        with self._kind(broker) as caller:
            return caller.publish(topic, message)

    def read(self, broker: Broker, topic: str, count: int) -> list[Kept]:
        with self._kind(broker) as caller:
            return [caller.read(topic, offset) for offset in range(count)]


class ClientWay:
    """A client of Kafka's."""

    def __init__(self, name: str, roster: Roster) -> None:
        self.name = name
        self._roster = roster

    def put(self, broker: Broker, topic: str, message: Message) -> int:
        client = self._roster.client(self.name)
        (offset,) = client.produce(topic, [Sent(message.value, message.key, message.headers)])
        return offset

    def read(self, broker: Broker, topic: str, count: int) -> list[Kept]:
        found = self._roster.client(self.name).fetch(topic, 0, 0, count)
        return [Kept(one.offset, Message(one.value, one.key, one.headers)) for one in found]


class OwnClients:
    """penstock.Producer and penstock.Consumer."""

    name = "Producer and Consumer"

    def put(self, broker: Broker, topic: str, message: Message) -> int:
        with Producer(bootstrap=broker.bootstrap) as producer:
            placed = producer.send_and_wait(
                topic, message.value, key=message.key, headers=message.headers, partition=0
            )
        assert placed.offset is not None
        return placed.offset

    def read(self, broker: Broker, topic: str, count: int) -> list[Kept]:
        with Consumer(topic, bootstrap=broker.bootstrap, until_end=True) as consumer:
            return [Kept(one.offset, Message(one.value, one.key, one.headers)) for one in consumer]


class QueueClient:
    """penstock.BrokerClient, which reads by a subscription."""

    name = "BrokerClient"

    def put(self, broker: Broker, topic: str, message: Message) -> int:
        with BrokerClient(broker.host, broker.queue_port) as client:
            return client.publish(topic, message.value, key=message.key, headers=message.headers)

    def read(self, broker: Broker, topic: str, count: int) -> list[Kept]:
        came: queue.SimpleQueue[Kept] = queue.SimpleQueue()
        name = f"all-{uuid.uuid4().hex}"
        with BrokerClient(broker.host, broker.queue_port) as client:
            client.create_subscription(name, topic)
            client.subscribe_to_subscription(
                name,
                handler=lambda one: came.put(
                    Kept(
                        one.offset,
                        Message(None if one.is_null else one.body, one.key, tuple(map(tuple, one.headers))),
                    )
                ),
            )
            return [came.get(timeout=READ_S_MAX) for _ in range(count)]


OF_KAFKA = able("report_offsets")
UNABLE_TO_REPEAT = frozenset(OF_KAFKA) - frozenset(able("repeated_headers"))

CANNOT: dict[str, frozenset[str]] = {
    "headers without a value": frozenset(OF_KAFKA) - frozenset(able("null_headers")),
    "two headers of one name": UNABLE_TO_REPEAT,
    "another name between the two": UNABLE_TO_REPEAT | {"http door"},
}
"""What some ways cannot say. Every door can say a key, and headers of any bytes. HTTP's headers are an object of JSON,
so those of one name come together; the rest is what client libraries leave out."""


def ways_with(clients: Iterable[str], roster: Roster) -> list[Way]:
    """Doors, Penstock's clients, and some of Kafka's."""
    of_kafka = [ClientWay(required(name), roster) for name in clients]
    return [*map(DoorWay, CALLERS), OwnClients(), QueueClient(), *of_kafka]
