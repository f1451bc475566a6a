"""Fetch with every client: from any offset, across clients and codecs, waiting for what is yet to come."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from compat.raw import RawConnection, batch
from compat.roster import CODECS_OF, JAVA, KAFKAJS, KCAT, NAMES, able
from compat.vocabulary import Client, CreateTopic, Sent


@pytest.mark.parametrize("client", able("fetch"), indirect=True)
def test_from_inside_a_batch(client: Client, new_topic: CreateTopic, raw: RawConnection) -> None:
    topic = new_topic()
    raw.produce(topic, batch(*(str(number).encode() for number in range(10))))
    got = client.fetch(topic, 0, 7, 3)
    assert [(record.offset, record.value) for record in got] == [(7, b"7"), (8, b"8"), (9, b"9")]


@pytest.mark.parametrize("client", able("fetch"), indirect=True)
def test_over_many_batches(client: Client, new_topic: CreateTopic, raw: RawConnection) -> None:
    topic = new_topic()
    for first in range(0, 60, 3):
        raw.produce(topic, batch(*(str(first + index).encode() for index in range(3))))
    got = client.fetch(topic, 0, 1, 59)
    assert [(record.offset, record.value) for record in got] == [(n, str(n).encode()) for n in range(1, 60)]


@pytest.mark.parametrize("client", able("fetch"), indirect=True)
def test_a_waiting_fetch_wakes_on_new_data(
    client: Client, new_topic: CreateTopic, raw: RawConnection
) -> None:
    """The broker may wait longer than the test does: only a wake-up can deliver the second record."""
    topic = new_topic()
    raw.produce(topic, batch(b"there"))
    with ThreadPoolExecutor(1) as reader:
        reading = reader.submit(client.fetch, topic, 0, 0, 2)
        assert not raw.is_answer_due(0.5)
        raw.produce(topic, batch(b"later"))
        assert [record.value for record in reading.result()] == [b"there", b"later"]


@pytest.mark.parametrize("writer", NAMES)
def test_what_one_writes_all_read(
    writer: str, new_topic: CreateTopic, client_named: Callable[[str], Client]
) -> None:
    """One partition per codec; each record has a key, a header and a value of every byte."""
    topic = new_topic(partitions=len(CODECS_OF[writer]))
    sent = [
        Sent(bytes(range(number, 256)) * 4 + str(number).encode(), b"key", (("header", b"x"),))
        for number in range(1, 20)
    ]
    expected = [(n, record.key, record.value, record.headers) for n, record in enumerate(sent)]
    for partition, codec in enumerate(CODECS_OF[writer]):
        client_named(writer).produce(topic, sent, partition=partition, codec=codec)
    times: dict[int, list[int]] = {}
    for reader in NAMES:
        for partition, codec in enumerate(CODECS_OF[writer]):
            if codec not in CODECS_OF[reader]:
                continue
            got = client_named(reader).fetch(topic, partition, 0, len(sent))
            assert [(r.offset, r.key, r.value, r.headers) for r in got] == expected, (reader, codec)
            stamps = [record.timestamp_ms for record in got]
            assert times.setdefault(partition, stamps) == stamps, (reader, codec)


@pytest.mark.parametrize("writer", [JAVA])
def test_nulls_and_times_look_the_same_to_all(
    writer: str, new_topic: CreateTopic, client_named: Callable[[str], Client]
) -> None:
    topic = new_topic(retention_ms="-1")
    sent = [
        Sent(None, b"gone", (("null", None), ("empty", b"")), 1_500_000_000_001),
        Sent(b"", None, (), 1_500_000_000_002),
        Sent(None, None, (), 1_500_000_000_003),
    ]
    client_named(writer).produce(topic, sent)
    for reader in NAMES:
        got = client_named(reader).fetch(topic, 0, 0, len(sent))
        seen = [Sent(r.value, r.key, r.headers, r.timestamp_ms) for r in got]
        assert seen == sent, reader


def test_every_codec_is_read_by_most() -> None:
    """The cross test above means something only while every codec has a writer and several readers."""
    for codec in CODECS_OF[KCAT]:
        able_to = [name for name in NAMES if codec in CODECS_OF[name]]
        assert len(able_to) >= len(NAMES) - 1, codec
    assert CODECS_OF[KAFKAJS] == ("none", "gzip")
