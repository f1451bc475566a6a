"""One contract for every door: the same acts, the same limits, the same refusals, each in the door's own words."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from contract.callers.caller import Caller, Message, Refused
from contract.callers.roster import CALLERS
from contract.conftest import FRAME_BYTES_MAX, SMALL_MESSAGE_BYTES, WAIT_S, make_topic
from penstock.apps.doorways import KAFKA, LATER_DOORS
from penstock.testing import Broker, running_broker

ODD = Message(
    bytes(range(256)), b"k\0\xff", (("source", b"here"), ("twice", b"1"), ("twice", None), ("raw", b"\0\xff"))
)
PLAIN = Message(b"plain")
IDLE_CONNECTIONS = 60
STALL_S = 0.5
REQUESTS_AT_ONCE = 20
UNREAD_BYTES_MAX = 8 << 20

each_door = pytest.mark.parametrize("kind", CALLERS, ids=lambda one: one.door)


def assert_all_doors_work(broker: Broker, topic: str) -> None:
    """Other clients are not touched: everybody still writes, and reads what was written."""
    for kind in CALLERS:
        with kind(broker) as caller:
            offset = caller.publish(topic, PLAIN)
            assert caller.read(topic, offset) == (offset, PLAIN)


def refusal(act: Callable[[], object]) -> str:
    with pytest.raises(Refused) as caught:
        act()
    return caught.value.word


def test_no_door_is_left_out() -> None:
    assert {one.door for one in CALLERS} == {KAFKA, *LATER_DOORS}


@each_door
@pytest.mark.parametrize(
    "message",
    [PLAIN, ODD, Message(None, b"gone"), Message(b"", b""), Message(b"line\r\nline\n\0", None, (("", b""),))],
    ids=["plain", "odd", "null", "empty", "lines"],
)
def test_what_is_published_is_read_back(
    broker: Broker, topic: str, kind: type[Caller], message: Message
) -> None:
    with kind(broker) as caller:
        assert [caller.publish(topic, message) for _ in range(3)] == [0, 1, 2]
        assert caller.read(topic, 1) == (1, message)


@each_door
def test_an_unknown_topic_is_refused_in_the_doors_words(broker: Broker, kind: type[Caller]) -> None:
    with kind(broker) as caller:
        assert refusal(lambda: caller.read("nothing", 0)) == kind.words["unknown topic"]
        assert refusal(lambda: caller.publish("nothing", PLAIN)) == kind.words["unknown topic"]


@each_door
def test_an_offset_out_of_range_is_refused_and_the_connection_goes_on(
    broker: Broker, topic: str, kind: type[Caller]
) -> None:
    with kind(broker) as caller:
        caller.publish(topic, PLAIN)
        assert refusal(lambda: caller.read(topic, 99)) == kind.words["out of range"]
        assert caller.read(topic, 0) == (0, PLAIN)


@each_door
def test_a_message_over_the_topics_limit_is_refused_and_the_connection_goes_on(
    broker: Broker, kind: type[Caller]
) -> None:
    topic = make_topic(broker, max_message_bytes=str(SMALL_MESSAGE_BYTES))
    with kind(broker) as caller:
        large = Message(bytes(2 * SMALL_MESSAGE_BYTES))
        assert refusal(lambda: caller.publish(topic, large)) == kind.words["too large"]
        assert caller.publish(topic, PLAIN) == 0


@each_door
def test_a_request_over_the_limit_is_refused_before_it_is_sent(
    broker: Broker, topic: str, kind: type[Caller]
) -> None:
    with kind(broker) as caller:
        caller.send(caller.announced(topic, 2 * FRAME_BYTES_MAX))
        assert caller.last_word(caller.rest()) == kind.words["frame too large"]
    assert_all_doors_work(broker, topic)


@each_door
def test_what_is_malformed_is_refused_and_touches_nobody_else(
    broker: Broker, topic: str, kind: type[Caller]
) -> None:
    with kind(broker) as caller:
        caller.publish(topic, PLAIN)
        caller.send(caller.malformed())
        caller.end()
        assert caller.last_word(caller.rest()) == kind.words["malformed"]
    assert_all_doors_work(broker, topic)


@each_door
def test_half_a_request_and_then_silence_ends_the_connection(
    broker: Broker, topic: str, kind: type[Caller]
) -> None:
    with kind(broker) as caller:
        caller.send(caller.half(topic))
        assert_all_doors_work(broker, topic)
        caller.rest()
    with kind(broker) as caller:
        assert caller.publish(topic, PLAIN) == len(CALLERS), "nothing came of the half request"
    assert "frame_ms_max" in broker.output()


@each_door
def test_a_reader_that_never_reads_is_not_read_from(broker: Broker, topic: str, kind: type[Caller]) -> None:
    with kind(broker) as filler:
        filler.publish(topic, Message(bytes(100_000)))
    with kind(broker) as caller:
        requests = caller.request(topic) * REQUESTS_AT_ONCE
        sent = 0
        while went := caller.send_some(requests[sent % len(requests) :], STALL_S):
            sent += went
            assert sent < UNREAD_BYTES_MAX, "the broker takes in whatever comes"
        assert_all_doors_work(broker, topic)


def test_many_idle_connections_are_no_burden(broker: Broker, topic: str) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(kind(broker)) for _ in range(IDLE_CONNECTIONS) for kind in CALLERS]
        assert_all_doors_work(broker, topic)
        for caller in idle[-len(CALLERS) :]:
            caller.publish(topic, PLAIN)


def test_the_limit_of_connections_is_one_for_all_doors(tmp_path: Path) -> None:
    with (
        running_broker(tmp_path, connections_max=2 * len(CALLERS)) as broker,
        ExitStack() as stack,
    ):
        topic = "shared"
        inside = [stack.enter_context(kind(broker)) for _ in range(2) for kind in CALLERS]
        for caller in reversed(inside):  # Kafka last: the others make the topic
            caller.publish(topic, PLAIN)
        for kind in CALLERS:
            with kind(broker) as caller:
                assert caller.rest() == b"", "there is no room, whichever the door"
        for kind in reversed(CALLERS):
            inside.pop(0).close()
            inside.append(stack.enter_context(admitted(kind, broker, topic)))
        assert "connections_max" in broker.output()


def admitted(kind: type[Caller], broker: Broker, topic: str) -> Caller:
    """A caller that is let in, as soon as the broker has seen another one go."""
    deadline = time.monotonic() + WAIT_S
    while True:
        caller = kind(broker)
        try:
            caller.publish(topic, PLAIN)
        except ConnectionError:
            assert time.monotonic() < deadline, f"nobody is let in by {kind.door}"
            caller.close()
        else:
            return caller


def test_what_any_door_acknowledged_survives_kill_9(killable: Broker) -> None:
    topic = make_topic(killable)
    put_in = [Message(f"by {kind.door}".encode(), kind.door.encode()) for kind in CALLERS]
    for kind, message in zip(CALLERS, put_in, strict=True):
        with kind(killable) as caller:
            caller.publish(topic, message)
    killable.kill()
    killable.start()
    for kind in CALLERS:
        with kind(killable) as caller:
            assert [caller.read(topic, offset).message for offset in range(len(put_in))] == put_in
