"""A message that is put in by any door or client is read back by every other: same offset, key, headers and bytes."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from compat.roster import Roster
from contract.callers.caller import Kept, Message
from contract.conftest import make_topic
from contract.ways import CANNOT, Way, all_ways
from penstock.testing import Broker

Headers = tuple[tuple[str, bytes | None], ...]
HEADERS: dict[str, Headers] = {
    "headers of any bytes": (("source", b"a shop"), ("raw", b"\0\xff\r\n=%"), ("empty", b"")),
    "headers without a value": (("none", None), ("empty", b"")),
    "two headers of one name": (("twice", b"1"), ("twice", b"2")),
    "another name between the two": (("twice", b"1"), ("other", b"2"), ("twice", b"3")),
}


@pytest.fixture(scope="module")
def ways(broker: Broker) -> Iterator[list[Way]]:
    roster = Roster(broker.bootstrap)
    yield all_ways(roster)
    roster.close()


@pytest.mark.parametrize("what", HEADERS)
def test_all_pairs(broker: Broker, ways: list[Way], what: str) -> None:
    topic = make_topic(broker)
    able = [way for way in ways if way.name not in CANNOT.get(what, frozenset())]
    put_in = [put(way, broker, topic, HEADERS[what]) for way in able]
    assert [one.offset for one in put_in] == list(range(len(able)))
    for way in able:
        assert way.read(broker, topic, len(put_in)) == put_in, f"as {way.name} reads it"


def put(way: Way, broker: Broker, topic: str, headers: Headers) -> Kept:
    message = Message(
        f"by {way.name}".encode() + bytes(range(256)), b"key\0\xff " + way.name.encode(), headers
    )
    return Kept(way.put(broker, topic, message), message)
