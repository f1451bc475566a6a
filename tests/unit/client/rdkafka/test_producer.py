"""Producer against a real broker: where records go, what failing ones tell, transactions."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from penstock import Consumer, Producer
from penstock.client.errors import (
    Aborted,
    BadArgument,
    ClientError,
    DeliveryFailed,
    Fenced,
    IllegalState,
    NotFound,
    Refused,
    SerializationFailed,
    Unreachable,
)
from penstock.client.messages import Message, Record
from penstock.testing import Broker

WAIT_S = 30.0


def read(broker: Broker, topic: str, **options: Any) -> list[Message]:
    with Consumer(topic, bootstrap=broker.bootstrap, until_end=True, **options) as consumer:
        return list(consumer)


def test_a_record_arrives_as_it_was_sent(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(2)
    with Producer(bootstrap=broker.bootstrap) as producer:
        placed = producer.send_and_wait(
            topic, b"\x00\xff", key="c42", headers=[("a", b"1"), ("a", None)], partition=1, timestamp_ms=1_000
        )
        assert (placed.topic, placed.partition, placed.offset, placed.timestamp_ms) == (topic, 1, 0, 1_000)
        tombstone = producer.send_record(Record(topic, None, "c42", {"b": "2"}, 1)).result(WAIT_S)
        assert tombstone.offset == 1
    first, second = read(broker, topic)
    assert (first.key, first.value, first.timestamp_ms) == (b"c42", b"\x00\xff", 1_000)
    assert first.headers == (("a", b"1"), ("a", None))
    assert first.timestamp is not None and first.timestamp.isoformat() == "1970-01-01T00:00:01+00:00"
    assert (second.value, second.header("b"), second.header("a")) == (None, b"2", None)


def test_round_robin_takes_turns(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)
    with Producer(bootstrap=broker.bootstrap, partitioning="round_robin") as producer:
        for number in range(9):
            producer.send(topic, str(number), key="same")
    assert Counter(one.partition for one in read(broker, topic)) == {0: 3, 1: 3, 2: 3}


def test_equal_keys_meet(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(5)
    with Producer(bootstrap=broker.bootstrap) as producer:
        for number in range(60):
            producer.send(topic, str(number), key=f"key-{number % 12}")
    homes = {(one.key, one.partition) for one in read(broker, topic)}
    assert len(homes) == 12 and len({partition for _, partition in homes}) > 1


def test_a_function_chooses(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3)

    def choose(name: str, key: bytes | None, partitions: int) -> int:
        assert (name, partitions) == (topic, 3)
        return len(key or b"")

    with Producer(bootstrap=broker.bootstrap, partitioning=choose) as producer:
        assert producer.send_and_wait(topic, b"x", key="ab").partition == 2
        assert producer.send_and_wait(topic, b"x", key="ab", partition=0).partition == 0
        with pytest.raises(BadArgument, match="returned 3: expected 0 to 2"):
            producer.send(topic, b"x", key="abc")
        with pytest.raises(NotFound):
            producer.send(f"{topic}-absent", b"x")


def test_without_acknowledgements_nobody_knows_the_offset(broker: Broker, topic: str) -> None:
    with Producer(bootstrap=broker.bootstrap, acks="none") as producer:
        assert producer.send_and_wait(topic, b"x").offset is None
    assert len(read(broker, topic)) == 1


@pytest.mark.parametrize("delivery", ["at_most_once", "at_least_once"])
@pytest.mark.parametrize("compression", ["none", "lz4"])
def test_a_full_queue_waits(broker: Broker, topic: str, delivery: Any, compression: Any) -> None:
    options = {"delivery": delivery, "compression": compression}
    with Producer(bootstrap=broker.bootstrap, queue_records_max=10, linger_ms=0, **options) as producer:
        deliveries = [producer.send(topic, str(number)) for number in range(500)]
        assert not deliveries[-1].cancel()
        producer.flush(WAIT_S)
        assert producer.waiting == 0
        assert [one.result().offset for one in deliveries] == list(range(500))
    assert [one.value for one in read(broker, topic, value_serializer="string")] == [
        str(n) for n in range(500)
    ]


def test_a_failed_delivery_is_told_by_its_future(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(max_message_bytes="1000")
    with Producer(bootstrap=broker.bootstrap) as producer:
        with pytest.raises(Refused, match="MSG_SIZE_TOO_LARGE"):
            producer.send_and_wait(topic, b"x" * 2_000)
        error = producer.send(topic, b"x" * 2_000).exception(WAIT_S)
        assert isinstance(error, Refused) and not error.retriable
        producer.flush(WAIT_S)


def test_what_no_future_told_the_end_tells(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(max_message_bytes="1000")
    producer = Producer(bootstrap=broker.bootstrap)
    producer.send_and_wait(topic, b"small")
    producer.send(topic, b"x" * 2_000)
    producer.send(topic, b"y" * 2_000)
    with pytest.raises(DeliveryFailed, match="2 records were not delivered") as told:
        producer.flush(WAIT_S)
    assert (told.value.count, len(told.value.reasons), told.value.code) == (2, 2, "MSG_SIZE_TOO_LARGE")
    producer.flush(WAIT_S)
    producer.send(topic, b"x" * 2_000)
    with pytest.raises(DeliveryFailed, match="1 record was"):
        producer.close()
    assert [one.value for one in read(broker, topic)] == [b"small"]


def test_more_failures_than_reasons_are_kept(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(max_message_bytes="1000")
    with Producer(bootstrap=broker.bootstrap, linger_ms=0) as producer:
        failing = [producer.send(topic, b"x" * 2_000) for _ in range(150)]
        assert all(isinstance(one.exception(WAIT_S), Refused) for one in failing)
        producer.flush(WAIT_S)
        failing = [producer.send(topic, b"x" * 2_000) for _ in range(150)]
        assert isinstance(failing[0].exception(WAIT_S), Refused)
        with pytest.raises(DeliveryFailed, match="149 records") as told:
            producer.flush(WAIT_S)
        assert told.value.count == 149 and 0 < len(told.value.reasons) <= 100
        assert isinstance(failing[1].exception(), Refused)


def test_an_error_of_the_program_is_not_hidden(broker: Broker, new_topic: Callable[..., str]) -> None:
    topic = new_topic(max_message_bytes="1000")
    with pytest.raises(KeyError) as raised, Producer(bootstrap=broker.bootstrap) as producer:
        producer.send(topic, b"x" * 2_000)
        raise KeyError("of the program")
    assert "1 record was not delivered" in "".join(raised.value.__notes__)


def test_absent_topics_are_told(broker: Broker) -> None:
    quick = {"topic.metadata.propagation.max.ms": 500}
    with Producer(bootstrap=broker.bootstrap, librdkafka=quick) as producer, pytest.raises(NotFound):
        producer.send_and_wait("client-absent", b"x")


def test_a_closed_producer_says_so(broker: Broker, topic: str) -> None:
    producer = Producer(bootstrap=broker.bootstrap)
    producer.close()
    producer.close()
    for call in (lambda: producer.send(topic, b"x"), producer.flush):
        with pytest.raises(IllegalState, match="not open"):
            call()


def test_values_that_cannot_be_written(broker: Broker, topic: str) -> None:
    with Producer(bootstrap=broker.bootstrap, value_serializer="json") as producer:
        with pytest.raises(SerializationFailed, match="the value cannot be encoded"):
            producer.send(topic, {1, 2})
        with pytest.raises(
            SerializationFailed, match="the key cannot be encoded: expected bytes or str, not int"
        ):
            producer.send(topic, {}, key=7)  # type: ignore[typeddict-item]
        with pytest.raises(BadArgument):
            producer.send(topic, {}, headers={"a": 1})  # type: ignore[dict-item]
    assert read(broker, topic) == []


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"ack": "all"}, "no option 'ack'. Did you mean 'acks'"),
        ({"acks": "al"}, "Did you mean 'all'"),
        ({"acks": 1}, "expected `none` or `leader` or `all`"),
        ({"linger_ms": -1}, "the minimum is 0"),
        ({"retries": 2**40}, "the maximum is"),
        ({"retries": True}, "an integer"),
        ({"partitioning": 5}, "a function"),
        ({"value_serializer": "jsno"}, "Did you mean 'json'"),
        ({"value_serializer": object()}, "a Serializer"),
        ({"librdkafka": {"no.such": 1}}, "No such configuration property"),
        ({"bootstrap": "somewhere"}, "HOST:PORT"),
        ({"delivery": "exactly_once"}, "needs transactional_id"),
        ({"delivery": "exactly_once", "transactional_id": "t", "acks": "leader"}, "needs acks='all'"),
        ({"delivery": "at_most_once", "retries": 3}, "never retries"),
        ({"transactional_id": "t"}, "is for delivery='exactly_once'"),
    ],
)
def test_options_that_cannot_be(broker: Broker, options: dict[str, Any], told: str) -> None:
    with pytest.raises(BadArgument, match=told):
        Producer(**{"bootstrap": broker.bootstrap, **options})


def test_nobody_there() -> None:
    with pytest.raises(Unreachable, match=r"No broker answers at 127\.0\.0\.1:1: connection refused"):
        Producer(bootstrap="127.0.0.1:1", connect_s_max=0.2)


def transactional(broker: Broker, name: str) -> Producer:
    return Producer(bootstrap=broker.bootstrap, delivery="exactly_once", transactional_id=name)


def again(producer: Producer, act: Callable[[], object]) -> None:
    """As programs do: what was aborted is run again. The library may abort once more to put its numbers in order."""
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        try:
            with producer.transaction():
                act()
            return
        except Aborted:
            continue
    raise AssertionError("aborted again and again")


def test_a_transaction_is_seen_whole_or_not_at_all(broker: Broker, topic: str) -> None:
    with transactional(broker, topic) as producer:
        with producer.transaction():
            producer.send(topic, b"a")
            producer.send(topic, b"b")
        with pytest.raises(ZeroDivisionError), producer.transaction():
            lost = producer.send(topic, b"c")
            producer.flush(WAIT_S)
            raise ZeroDivisionError
        assert lost.result().offset is not None
        with producer.transaction():
            producer.send(topic, b"d")
    assert [one.value for one in read(broker, topic)] == [b"a", b"b", b"d"]


def test_a_transaction_that_cannot_succeed_is_not_called_aborted(
    broker: Broker, new_topic: Callable[..., str]
) -> None:
    topic = new_topic(max_message_bytes="1000")
    with transactional(broker, topic) as producer:
        with pytest.raises(DeliveryFailed, match="MSG_SIZE_TOO_LARGE"), producer.transaction():
            producer.send(topic, b"fine")
            producer.send(topic, b"x" * 2_000)
        again(producer, lambda: producer.send(topic, b"after"))
    assert [one.value for one in read(broker, topic)] == [b"after"]


def test_moments_that_are_wrong_for_transactions(broker: Broker, topic: str) -> None:
    with transactional(broker, topic) as producer:
        with pytest.raises(IllegalState, match="send inside"):
            producer.send(topic, b"x")
        with producer.transaction(), pytest.raises(IllegalState, match="do not nest"), producer.transaction():
            pass
    with Producer(bootstrap=broker.bootstrap) as plain:
        with pytest.raises(IllegalState, match="exactly_once"), plain.transaction():
            pass
        with (
            transactional(broker, topic) as producer,
            Consumer(topic, bootstrap=broker.bootstrap, group=topic) as consumer,
            pytest.raises(IllegalState, match="needs delivery='exactly_once'"),
            producer.transaction(consumer),
        ):
            producer.send(topic, b"x")


def test_the_older_of_two_is_fenced(broker: Broker, topic: str) -> None:
    with transactional(broker, topic) as older:
        with transactional(broker, topic) as newer, newer.transaction():
            newer.send(topic, b"new")
        with pytest.raises((Fenced, Aborted)) as told, older.transaction():
            older.send(topic, b"old")
        assert isinstance(told.value, ClientError)
    assert [one.value for one in read(broker, topic)] == [b"new"]


def test_a_producer_that_nobody_closed_still_delivers(broker: Broker, topic: str) -> None:
    """As at the end of a program that forgot to."""
    producer = Producer(bootstrap=broker.bootstrap, linger_ms=50)
    producer.send(topic, b"late")
    del producer
    deadline = time.monotonic() + WAIT_S
    while not (found := read(broker, topic)):
        assert time.monotonic() < deadline
    assert [one.value for one in found] == [b"late"]
