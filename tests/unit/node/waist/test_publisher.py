"""Messages one by one: shared batches, the right partition, everyone told for themselves and in order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from memory_broker import SETTINGS, make_topic, until, with_broker
from penstock.core.errors import (
    BrokerError,
    DiskFull,
    InvalidRecord,
    InvalidTopic,
    Offline,
    TimedOut,
    TooLarge,
    UnknownTopic,
)
from penstock.core.model import Header, NewRecord
from penstock.core.records.build import open_batches
from penstock.core.records.murmur2 import partition_of
from penstock.core.session import Session
from penstock.node.broker import Broker
from penstock.node.waist.publisher import Published
from penstock.node.waist.waist import Waist

SESSION = Session("test")


class Told:
    """What publishers were told, in the order in which they were."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.publisher = Waist(broker).publisher()
        self.outcomes: list[Published | BrokerError] = []
        self.asked = 0
        self.held = 0

    def hold(self) -> Callable[[], None]:
        self.held += 1
        return self._release

    def _release(self) -> None:
        self.held -= 1

    def publish(
        self, topic: str, *values: bytes, key: bytes | None = None, partition: int | None = None
    ) -> None:
        for value in values:
            self.asked += 1
            self.publisher.publish(
                SESSION, topic, NewRecord(key, value), self.outcomes.append, partition, self.hold
            )

    async def all(self) -> list[Published | BrokerError]:
        await until(lambda: len(self.outcomes) == self.asked)
        outcomes, self.outcomes, self.asked = self.outcomes, [], 0
        return outcomes

    def stored(self, topic: str, partition: int = 0) -> list[Any]:
        run = self.broker.partition(topic, partition).read(0, 1 << 20)
        return [] if run is None else open_batches(run.read())


def test_what_comes_in_one_turn_is_one_batch() -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders")
        told = Told(broker)
        told.publish("orders", *[b"%d" % number for number in range(100)])
        assert told.outcomes == [], "nothing is said before it is durable"
        assert await told.all() == [Published(0, offset) for offset in range(100)]
        partition = broker.partition("orders", 0)
        assert len(list(partition.log.headers_from(0))) == 1
        assert [one.value for one in told.stored("orders")] == [b"%d" % number for number in range(100)]

    with_broker(test)


def test_key_headers_and_time_arrive_as_they_were_given() -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders")
        told = Told(broker)
        record = NewRecord(b"k", None, (Header("a", b"1"), Header("a", None)), 1_234)
        told.asked += 1
        told.publisher.publish(SESSION, "orders", record, told.outcomes.append, None, told.hold)
        await told.all()
        (stored,) = told.stored("orders")
        assert stored == (0, 1_234, b"k", None, (("a", b"1"), ("a", None)))

    with_broker(test)


def test_partitions_by_number_by_key_and_round_robin_by_turn() -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders", 3)
        told = Told(broker)
        told.publish("orders", b"x", partition=2)
        assert await told.all() == [Published(2, 0)]
        told.publish("orders", b"x", key=b"customer 7")
        assert await told.all() == [Published(partition_of(b"customer 7", 3), 1)]
        chosen = []
        for _ in range(6):
            told.publish("orders", b"a", b"b")
            first, second = await told.all()
            assert isinstance(first, Published) and isinstance(second, Published)
            assert first.partition == second.partition, "one turn, one batch"
            chosen.append(first.partition)
        assert chosen == [0, 1, 2, 0, 1, 2]
        told.publish("orders", b"x", partition=3)
        told.publish("orders", b"x", partition=-1)
        assert [type(one) for one in await told.all()] == [UnknownTopic, UnknownTopic]

    with_broker(test)


def test_a_topic_that_is_not_there_is_made_once_and_keeps_the_order() -> None:
    async def test(broker: Broker) -> None:
        told = Told(broker)
        told.publish("new", b"1", b"2", b"3")
        assert told.held == 3, "later requests of these clients wait for the topic"
        assert await told.all() == [Published(0, offset) for offset in range(3)]
        assert [one.value for one in told.stored("new")] == [b"1", b"2", b"3"]
        assert told.held == 0
        told.publish("no such name!", b"x")
        told.publish("", b"x")
        assert [type(one) for one in await told.all()] == [InvalidTopic, InvalidTopic]

    with_broker(test)


def test_a_topic_is_not_made_where_the_settings_forbid_it() -> None:
    async def test(broker: Broker) -> None:
        told = Told(broker)
        told.publish("new", b"x")
        (error,) = await told.all()
        assert isinstance(error, UnknownTopic) and "auto_create_topics" in str(error)

    with_broker(test, replace(SETTINGS, auto_create_topics=False))


def test_a_topic_whose_making_crashes_leaves_nobody_waiting(monkeypatch: Any) -> None:
    async def test(broker: Broker) -> None:
        async def crash(name: str) -> None:
            raise ZeroDivisionError

        with monkeypatch.context() as patched:
            patched.setattr(broker, "auto_create_topic", crash)
            told = Told(broker)
            told.publish("new", b"1", b"2")
            assert [type(one) for one in await told.all()] == [Offline, Offline]
            assert told.held == 0
        told.publish("new", b"3")
        assert await told.all() == [Published(0, 0)]

    with_broker(test)


def test_the_brokers_own_topics_are_not_written_to() -> None:
    async def test(broker: Broker) -> None:
        await broker.group_coordinator.open()
        told = Told(broker)
        told.publish("__consumer_offsets", b"x")
        assert [type(one) for one in await told.all()] == [InvalidTopic]

    with_broker(test)


def test_nobody_suffers_for_a_neighbour() -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders", max_message_bytes="1000")
        await make_topic(broker, "latest", cleanup_policy="compact")
        told = Told(broker)
        told.publish("orders", b"a", b"x" * 1_000, b"b", b"y" * 400, b"z" * 400, b"w" * 400)
        outcomes = await told.all()
        assert sorted(str(type(one).__name__) for one in outcomes) == ["Published"] * 5 + ["TooLarge"]
        assert any(isinstance(one, TooLarge) for one in outcomes)
        assert [len(one.value) for one in told.stored("orders")] == [1, 1, 400, 400, 400]
        told.publish("latest", b"1", key=b"k")
        told.publish("latest", b"2")
        told.publish("latest", b"3", key=b"k")
        kinds = [type(one) for one in await told.all()]
        assert kinds.count(InvalidRecord) == 1 and kinds.count(Published) == 2

    with_broker(test)


def test_a_full_disk_is_told_to_everyone_and_not_tried_one_by_one(monkeypatch: Any) -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders")
        tries = []

        def full(*_: object) -> None:
            tries.append(1)
            raise DiskFull("no space")

        partition = broker.partition("orders", 0)
        monkeypatch.setattr(partition, "append", full)
        told = Told(broker)
        told.publish("orders", b"1", b"2", b"3")
        assert [type(one) for one in await told.all()] == [DiskFull] * 3
        assert tries == [1]

    with_broker(test)


def test_a_partition_that_fails_before_the_flush_acknowledges_nothing() -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders")
        told = Told(broker)
        told.publish("orders", b"1")
        await until(lambda: broker.partition("orders", 0).end_offset == 1)
        broker.partition("orders", 0).fail(DiskFull("gone"))
        (outcome,) = await told.all()
        assert isinstance(outcome, BrokerError)

    with_broker(test)


def test_leadership_lost_before_the_flush_leaves_the_outcome_unknown() -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders")
        told = Told(broker)
        told.publish("orders", b"1")
        partition = broker.partition("orders", 0)
        await until(lambda: partition.end_offset == 1)
        partition.follow(partition.leader_epoch)
        (outcome,) = await told.all()
        assert isinstance(outcome, TimedOut) and "unknown" in str(outcome)

    with_broker(test)


def test_many_at_once_are_answered_at_once_each_with_its_own_outcome() -> None:
    async def test(broker: Broker) -> None:
        await make_topic(broker, "orders", 2)
        publisher = Waist(broker).publisher()
        answers: list[list[Published | BrokerError]] = []
        records = [NewRecord(b"%d" % number, b"v") for number in range(20)]
        hold = Told(broker).hold
        publisher.publish_all(SESSION, "orders", records, answers.append, None, hold)
        publisher.publish_all(SESSION, "orders", [], answers.append, None, hold)
        publisher.publish_all(SESSION, "orders", records[:2], answers.append, 7, hold)
        await until(lambda: len(answers) == 3)
        by_size = {len(one): one for one in answers}
        assert by_size[0] == [] and [type(one) for one in by_size[2]] == [UnknownTopic] * 2
        for record, placed in zip(records, by_size[20], strict=True):
            assert isinstance(placed, Published) and record.key is not None
            assert placed.partition == partition_of(record.key, 2)

    with_broker(test)
