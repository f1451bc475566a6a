"""A message that is put in by any door or client is read back by every other: same offset, key, headers and bytes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat.roster import AIOKAFKA, CONFLUENT, JAVA, KAFKA_PYTHON, KAFKAJS, Roster
from contract.callers.caller import Kept, Message
from contract.conftest import make_topic
from contract.ways import CANNOT, Way, ways_with
from penstock.testing import Broker

IN_PYTHON = [CONFLUENT, AIOKAFKA, KAFKA_PYTHON]
Headers = tuple[tuple[str, bytes | None], ...]
HEADERS: dict[str, Headers] = {
    "headers of any bytes": (("source", b"a shop"), ("raw", b"\0\xff\r\n=%"), ("empty", b"")),
    "headers without a value": (("none", None), ("empty", b"")),
    "two headers of one name": (("twice", b"1"), ("twice", b"2")),
    "another name between the two": (("twice", b"1"), ("other", b"2"), ("twice", b"3")),
}


@pytest.fixture(scope="module")
def roster(broker: Broker) -> Iterator[Roster]:
    opened = Roster(broker.bootstrap)
    yield opened
    opened.close()


@pytest.mark.parametrize("clients", [IN_PYTHON, [KAFKAJS], [JAVA]], ids="+".join)
@pytest.mark.parametrize("what", HEADERS)
def test_all_pairs(broker: Broker, roster: Roster, clients: list[str], what: str) -> None:
    topic = make_topic(broker)
    ways = [way for way in ways_with(clients, roster) if way.name not in CANNOT.get(what, frozenset())]
    put_in = [put(way, broker, topic, HEADERS[what]) for way in ways]
    assert [one.offset for one in put_in] == list(range(len(ways)))
    for way in ways:
        assert way.read(broker, topic, len(put_in)) == put_in, f"as {way.name} reads it"


def put(way: Way, broker: Broker, topic: str, headers: Headers) -> Kept:
    message = Message(
        f"by {way.name}".encode() + bytes(range(256)), b"key\0\xff " + way.name.encode(), headers
    )
    return Kept(way.put(broker, topic, message), message)
