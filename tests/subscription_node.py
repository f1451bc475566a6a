"""Members of a subscription on a node without a door, and what they were given. No socket."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from penstock.core.errors import BrokerError
from penstock.core.machines.subscriptions.subscription import Outcome
from penstock.core.model import NewRecord, Record
from penstock.core.records.build import build_batch
from penstock.node.broker import Broker
from penstock.node.coordinators.live_subscription import Delivered, LiveSubscription
from penstock.node.coordinators.subscriptions import SubscriptionRequest
from penstock.node.replicas.committed_records import read_committed

SUBSCRIPTION = "work"
SUBSCRIPTION_REQUEST = SubscriptionRequest(SUBSCRIPTION, "t")


class Member:
    """Takes what it is given; says what it is told to say."""

    def __init__(self, live: LiveSubscription, name: str, window: int = 10) -> None:
        self.live = live
        self.name = name
        self.given: list[Delivered] = []
        """Everything ever delivered to it."""
        self.ended: BrokerError | None = None
        live.join(name, window, self)

    def deliver(self, subscription: str, messages: Sequence[Delivered]) -> None:
        assert subscription == self.live.name
        self.given += messages

    def end(self, subscription: str, error: BrokerError) -> None:
        assert subscription == self.live.name
        self.ended = error

    def say(
        self, message: Delivered, outcome: Outcome = Outcome.ACCEPT, complaint: str | None = None
    ) -> None:
        self.live.acknowledge(self.name, message.partition, message.record.offset, outcome, complaint)

    def accept_all(self) -> None:
        for message in self.given:
            self.say(message)

    async def leave(self, *, is_counted: bool = False) -> BrokerError | None:
        done: asyncio.Future[BrokerError | None] = asyncio.get_running_loop().create_future()
        self.live.leave(self.name, is_counted=is_counted, settled=done.set_result)
        return await done

    @property
    def numbers(self) -> list[tuple[int, int]]:
        """(offset, number of the delivery), in the order of coming."""
        return [(one.record.offset, one.number) for one in self.given]


async def publish(broker: Broker, *values: bytes, topic: str = "t", partition: int = 0) -> None:
    """Records that are durable when it returns."""
    owner = broker.partition(topic, partition)
    appended = owner.append_own(build_batch([NewRecord(None, value) for value in values], 1_000))
    await owner.sync_to(appended.end_offset)


async def subscribe(broker: Broker, request: SubscriptionRequest = SUBSCRIPTION_REQUEST) -> LiveSubscription:
    await broker.subscriptions.create(request)
    return broker.subscriptions.find(request.name)


def letters(broker: Broker, topic: str = "t") -> list[Record]:
    """What lies in the dead letter topic."""
    if broker.catalog.find(f"{topic}.dlq") is None:
        return []
    return read_committed(broker.partition(f"{topic}.dlq", 0), 0, 1 << 24)[0]


async def turns(count: int = 20) -> None:
    """Let everything happen that needs no time."""
    for _ in range(count):
        await asyncio.sleep(0.001)
