"""Consumer against a real broker: where it starts, what it commits, how members share."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from penstock import Consumer, Producer
from penstock.client.errors import BadArgument, IllegalState, NotFound, OffsetOutOfRange, SerializationFailed
from penstock.client.messages import Position
from penstock.testing import Broker

WAIT_S = 30.0


@pytest.fixture
def write(broker: Broker) -> Callable[..., None]:
    def write(topic: str, *values: object, **fields: Any) -> None:
        with Producer(bootstrap=broker.bootstrap) as producer:
            for value in values:
                producer.send(topic, str(value), **fields)

    return write


def consume(broker: Broker, topic: str, **options: Any) -> Consumer:
    return Consumer(
        topic, **{"bootstrap": broker.bootstrap, "until_end": True, "value_serializer": "string", **options}
    )


def values(consumer: Consumer) -> list[str]:
    return [message.value for message in consumer]


def test_where_a_reader_alone_starts(broker: Broker, topic: str, write: Callable[..., None]) -> None:
    write(topic, *range(5))
    with consume(broker, topic, reset="latest") as late:
        write(topic, 5)
        assert late.poll(WAIT_S) is not None
        assert late.poll(0) is None
    with consume(broker, topic) as all_of_it:
        assert values(all_of_it) == ["0", "1", "2", "3", "4", "5"]
        assert all_of_it.has_ended
    with consume(broker, topic, reset=3) as from_three:
        assert values(from_three) == ["3", "4", "5"]
        assert from_three.positions() == [Position(topic, 0, 6)]
    with consume(broker, topic, reset=99) as beyond, pytest.raises(OffsetOutOfRange):
        beyond.poll(WAIT_S)


def test_some_partitions_of_several_topics(
    broker: Broker, new_topic: Callable[..., str], write: Callable[..., None]
) -> None:
    first, second = new_topic(3), new_topic(2)
    for number in range(3):
        write(first, f"a{number}", partition=number)
    write(second, "b1", partition=1)
    with Consumer([first, second], bootstrap=broker.bootstrap, partitions=[1], until_end=True) as consumer:
        assert consumer.assignment() == sorted([(first, 1), (second, 1)])
        assert sorted(message.value for message in consumer) == [b"a1", b"b1"]
    with pytest.raises(NotFound, match="has no partition 2: it has 0 to 1"):
        Consumer(second, bootstrap=broker.bootstrap, partitions=[2])
    with pytest.raises(NotFound, match="no topic client-absent"):
        Consumer("client-absent", bootstrap=broker.bootstrap)


def test_an_absent_topic_is_told_to_members_too(broker: Broker) -> None:
    with (
        Consumer("client-absent", bootstrap=broker.bootstrap, group="g") as consumer,
        pytest.raises(NotFound),
    ):
        consumer.poll(WAIT_S)


def test_what_was_handled_does_not_come_again(broker: Broker, topic: str, write: Callable[..., None]) -> None:
    write(topic, *range(4))
    with pytest.raises(ZeroDivisionError), consume(broker, topic, group=topic) as consumer:
        for message in consumer:
            if message.value == "2":
                raise ZeroDivisionError
    with consume(broker, topic, group=topic) as consumer:
        assert values(consumer) == ["2", "3"]
    with consume(broker, topic, group=topic) as consumer:
        assert values(consumer) == []
        assert consumer.committed() == [Position(topic, 0, 4)]


def test_an_early_end_without_an_error_counts_as_handled(
    broker: Broker, topic: str, write: Callable[..., None]
) -> None:
    write(topic, *range(3))
    with consume(broker, topic, group=topic) as consumer:
        assert next(consumer).value == "0"
    unsure = consume(broker, topic, group=topic)
    assert next(unsure).value == "1"
    unsure.close()
    with consume(broker, topic, group=topic) as consumer:
        assert values(consumer) == ["1", "2"]


def test_commits_by_hand(broker: Broker, topic: str, write: Callable[..., None]) -> None:
    write(topic, *range(6))
    with consume(broker, topic, group=topic, commit="manual") as consumer:
        batch = consumer.batch(4, WAIT_S)
        while len(batch) < 4:
            batch += consumer.batch(4 - len(batch), WAIT_S)
        consumer.commit(batch[1], batch[0])
        assert consumer.committed() == [Position(topic, 0, 2)]
        consumer.commit()
        assert consumer.committed() == [Position(topic, 0, 4)]
        assert values(consumer) == ["4", "5"]
    with consume(broker, topic, group=topic, commit="manual") as consumer:
        assert values(consumer) == ["4", "5"]


def test_at_most_once_commits_before_handing_out(
    broker: Broker, topic: str, write: Callable[..., None]
) -> None:
    write(topic, *range(3))
    options = {"group": topic, "delivery": "at_most_once", "read_ahead_records_max": 1}
    with pytest.raises(ZeroDivisionError), consume(broker, topic, **options) as consumer:
        assert next(consumer).value == "0"
        raise ZeroDivisionError
    with consume(broker, topic, **options) as consumer:
        assert values(consumer) == ["1", "2"]


def test_a_group_that_starts_at_an_offset(broker: Broker, topic: str, write: Callable[..., None]) -> None:
    write(topic, *range(5))
    for expected in (["3", "4"], []):
        with consume(broker, topic, group=topic, reset=3) as consumer:
            assert values(consumer) == expected


def test_seeking(broker: Broker, topic: str, write: Callable[..., None]) -> None:
    write(topic, *range(5))
    with consume(broker, topic) as consumer:
        assert next(consumer).value == "0"
        consumer.seek(topic, 0, 3)
        assert values(consumer) == ["3", "4"]
        consumer.seek(topic, 0, 4)
        assert values(consumer) == ["4"]
        with pytest.raises(IllegalState):
            consumer.seek(topic, 7, 0)


def test_silence_ends_the_iteration_if_wanted(broker: Broker, topic: str, write: Callable[..., None]) -> None:
    write(topic, 1)
    with consume(broker, topic, until_end=False, idle_s_max=0.3) as consumer:
        assert values(consumer) == ["1"]


def test_a_message_that_cannot_be_read_does_not_block(
    broker: Broker, topic: str, write: Callable[..., None]
) -> None:
    write(topic, "1", "{", "3")
    with consume(broker, topic, group=topic, value_serializer="json") as consumer:
        assert next(consumer).value == 1
        with pytest.raises(
            SerializationFailed, match=f"{topic} partition 0 offset 1: the value cannot be decoded"
        ):
            next(consumer)
        assert next(consumer).value == 3
    with consume(broker, topic, value_serializer="json") as consumer:
        found = consumer.batch(3, WAIT_S)
        while len(found) < 1:
            found = consumer.batch(3, WAIT_S)
        assert [message.value for message in found] == [1]
        with pytest.raises(SerializationFailed):
            consumer.batch(3, WAIT_S)


def test_members_share_and_take_over(
    broker: Broker, new_topic: Callable[..., str], write: Callable[..., None]
) -> None:
    topic = new_topic(4)
    options = {"group": topic, "until_end": False, "session_ms": 6_000}
    with consume(broker, topic, **options) as first:
        with consume(broker, topic, **options) as second:
            deadline = time.monotonic() + WAIT_S
            while sorted(map(len, (first.assignment(), second.assignment()))) != [2, 2]:
                assert time.monotonic() < deadline
                assert first.poll(0.05) is None and second.poll(0.05) is None
        while len(first.assignment()) != 4:
            assert time.monotonic() < deadline
            assert first.poll(0.05) is None
        write(topic, "x", partition=3)
        message = first.poll(WAIT_S)
        assert message is not None and message.value == "x"


def test_calls_at_the_wrong_moment(broker: Broker, topic: str) -> None:
    alone = consume(broker, topic)
    with pytest.raises(IllegalState, match="Without a group"):
        alone.commit()
    alone.close()
    alone.close()
    with pytest.raises(IllegalState, match="not open"):
        alone.poll(0)
    with (
        consume(broker, topic, group=topic, delivery="exactly_once") as consumer,
        pytest.raises(IllegalState, match="the producer commits"),
    ):
        consumer.commit()


@pytest.mark.parametrize(
    ("topics", "options", "told"),
    [
        ([], {}, "a name or a list of names"),
        ("t", {"groups": "g"}, "Did you mean 'group'"),
        ("t", {"group": ""}, "cannot be empty"),
        ("t", {"instance_id": "i"}, "needs group"),
        ("t", {"group": "g", "partitions": [0]}, "exclude each other"),
        ("t", {"partitions": ["0"]}, "a list of integers"),
        ("t", {"delivery": "at_most_once"}, "needs group"),
        ("t", {"delivery": "at_most_once", "group": "g", "commit": "manual"}, "contradicts"),
        ("t", {"reset": "erliest"}, "Did you mean 'earliest'"),
        ("t", {"reset": -1}, "the minimum is 0"),
    ],
)
def test_options_that_cannot_be(topics: Any, options: dict[str, Any], told: str) -> None:
    with pytest.raises(BadArgument, match=told):
        Consumer(topics, **options)
