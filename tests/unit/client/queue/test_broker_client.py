"""BrokerClient against a real broker: handlers that fail, connections that break, calls that cannot be."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from conditions import WAIT_S_MAX, until
from penstock import BrokerClient
from penstock.client import errors
from penstock.client.queue import Message, Reject
from penstock.testing import Broker, running_broker


@pytest.fixture(scope="module")
def shared() -> Iterator[Broker]:
    with running_broker(storage="memory") as broker:
        yield broker


@pytest.fixture
def client(shared: Broker) -> Iterator[BrokerClient]:
    with BrokerClient("127.0.0.1", shared.queue_port, "tester") as one:
        yield one


def test_a_message_keeps_key_headers_time_and_bytes(client: BrokerClient) -> None:
    got: list[Message] = []
    client.create_topic("whole", 1)
    client.create_subscription("whole", "whole")
    offset = client.publish(
        "whole",
        b"\xff\0",
        key=b"\xfe",
        headers=[("@odd", b"\0"), ("none", None)],
        properties={"a": 1},
        timestamp_ms=7,
    )
    client.publish("whole", None, key="k")
    client.subscribe_to_subscription("whole", got.append)
    until(lambda: len(got) == 2, "the messages do not come")
    first, second = got
    assert (first.topic, first.partition, first.offset, first.delivery) == ("whole", 0, offset, 1)
    assert (first.body, first.key, first.timestamp_ms, first.is_null) == (b"\xff\0", b"\xfe", 7, False)
    assert first.headers == (("@odd", b"\0"), ("none", None), ("a", b"1"))
    assert first.properties["a"] == "1"
    assert (second.body, second.is_null, second.key) == (b"", True, b"k")


def test_a_handler_that_fails_gets_the_message_again_and_one_that_rejects_does_not(
    client: BrokerClient, caplog: pytest.LogCaptureFixture
) -> None:
    client.create_topic("failing")
    client.create_subscription("failing", "failing", max_deliveries=3)
    tries: list[tuple[str, int]] = []

    def handle(message: Message) -> None:
        tries.append((message.text, message.delivery))
        if message.text == "bad":
            raise Reject("never good")
        if message.text == "worse" or message.delivery == 1:
            raise ValueError("not now")

    for text in ("bad", "good", "worse"):
        client.publish_text("failing", text)
    client.subscribe_to_subscription("failing", handle, window=1)
    until(lambda: len(tries) == 6, f"{tries}")
    assert sorted(tries) == [("bad", 1), ("good", 1), ("good", 2), ("worse", 1), ("worse", 2), ("worse", 3)]
    assert "failed on failing-0 offset 1, delivery 1" in caplog.text
    buried: list[Message] = []
    until(lambda: "failing.dlq" in topics(client), "there is no dead letter topic")
    client.create_subscription("failing-graves", "failing.dlq")
    client.subscribe_to_subscription("failing-graves", buried.append)
    until(lambda: len(buried) == 2, "the dead letters do not come")
    stories = {one.text: one.properties for one in buried}
    assert stories["bad"]["penstock.dead.reason"] == "rejected"
    assert stories["bad"]["penstock.dead.error"] == "never good"
    assert stories["worse"]["penstock.dead.error"] == "ValueError: not now"
    client.unsubscribe_from_subscription("failing")
    assert client.redrive("failing") == 2
    assert client.redrive("failing") == 0


def topics(client: BrokerClient) -> set[str]:
    """Those that one can subscribe to; a probe, because the door lists subscriptions only."""
    try:
        client.create_subscription("probe", "failing.dlq")
    except errors.NotFound:
        return set()
    return {"failing.dlq"}


def test_what_takes_long_is_not_given_to_another(client: BrokerClient, shared: Broker) -> None:
    """While the handler works, the client asks for more time, for it and for what waits behind it."""
    client.create_topic("long")
    client.create_subscription("long", "long", hold_ms=1_500)
    may_end, seen = threading.Event(), []

    def handle(message: Message) -> None:
        seen.append((message.text, message.delivery))
        may_end.wait(WAIT_S_MAX)

    client.publish_text("long", "one")
    client.publish_text("long", "two")
    client.subscribe_to_subscription("long", handle)
    with BrokerClient("127.0.0.1", shared.queue_port, "other") as other:
        taken: list[str] = []
        other.subscribe_to_subscription("long", lambda message: taken.append(message.text))
        until(lambda: seen, "nothing comes")
        begun = time.monotonic()
        until(lambda: time.monotonic() - begun > 3, "time stands still")
        may_end.set()
        until(lambda: len(seen) == 2, "the second does not come")
        assert (seen, taken) == ([("one", 1), ("two", 1)], [])


def test_handlers_may_publish_and_a_client_may_leave(client: BrokerClient) -> None:
    client.create_topic("in")
    client.create_topic("out")
    client.create_subscription("in", "in")
    client.create_subscription("out", "out")
    echoed: list[str] = []
    client.subscribe_to_subscription("in", lambda message: client.publish_text("out", message.text.upper()))
    client.subscribe_to_subscription("out", lambda message: echoed.append(message.text))
    client.publish_text("in", "hello")
    until(lambda: echoed == ["HELLO"], "no echo")
    client.unsubscribe_from_subscription("in")
    client.publish_text("in", "later")
    assert not client.is_subscribed("in")
    (partition,) = client.describe_subscription("in")["partitions"]
    assert partition["unsettled_count"] == 1
    assert client.describe_subscription("in")["members"] == []
    client.delete_subscription("in")
    assert "in" not in {one["name"] for one in client.list_subscriptions()}


def test_a_subscription_that_is_deleted_ends_with_a_word(shared: Broker, client: BrokerClient) -> None:
    ended: list[tuple[str, str]] = []
    client.create_topic("brief")
    client.create_subscription("brief", "brief")
    told = BrokerClient(
        "127.0.0.1", shared.queue_port, on_end=lambda name, error: ended.append((name, error.code))
    )
    with told:
        told.subscribe_to_subscription("brief", print)
        client.delete_subscription("brief")
        until(lambda: ended, "nobody is told")
    assert ended == [("brief", "UNKNOWN_SUBSCRIPTION")]


@pytest.mark.parametrize(
    ("call", "kind", "words"),
    [
        (lambda client: client.create_subscription("x", "nowhere"), errors.NotFound, "nowhere"),
        (lambda client: client.subscribe_to_subscription("x", print), errors.NotFound, "create it first"),
        (lambda client: client.create_topic("a b"), errors.Refused, "may contain only"),
        (
            lambda client: client.publish_text("t", "x", **{"a=b": 1}),
            errors.BadArgument,
            "may not contain '='",
        ),
        (
            lambda client: client.publish_text("t", "x", **{"@a": 1}),
            errors.BadArgument,
            "reserved for the broker",
        ),
        (lambda client: client.publish("t", "text"), errors.BadArgument, "use publish_text"),
        (lambda client: client.subscribe_to_subscription("x", None), errors.BadArgument, "must be callable"),
        (lambda client: client.unsubscribe_from_subscription("x"), errors.IllegalState, "not subscribed"),
        (lambda client: client.connect(), errors.IllegalState, "already"),
    ],
)
def test_calls_that_cannot_be_say_why(
    client: BrokerClient, call: Callable[[BrokerClient], object], kind: type[Exception], words: str
) -> None:
    with pytest.raises(kind, match=words):
        call(client)


def test_a_client_that_is_not_connected_says_so() -> None:
    client = BrokerClient()
    with pytest.raises(errors.IllegalState, match=r"call connect\(\) first"):
        client.create_topic("t")
    client.disconnect()
    with pytest.raises(errors.BadArgument):
        BrokerClient(request_timeout_s=0)
    with pytest.raises(errors.BadArgument, match="1 to 65535"):
        BrokerClient(port=0)


def test_nobody_there_is_said_with_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    with pytest.raises(errors.Unreachable, match=f"127.0.0.1:{port}.*queue port"):
        BrokerClient("127.0.0.1", port).connect()


def test_a_door_of_another_protocol_is_told_apart(shared: Broker) -> None:
    with pytest.raises(errors.Unreachable, match="does not respond as a queue listener"):
        BrokerClient("127.0.0.1", shared.text_port, request_timeout_s=1).connect()


def test_a_broker_that_never_answers_is_not_waited_for_forever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        client = BrokerClient("127.0.0.1", silent.getsockname()[1], request_timeout_s=0.2)
        with pytest.raises(errors.Unreachable, match="does not respond"):
            client.connect()


def test_a_client_outlives_its_broker(tmp_path: Path) -> None:
    """A call that finds no broker waits for the next one; subscriptions are joined again by themselves."""
    got: list[str] = []
    with (
        running_broker(tmp_path) as broker,
        BrokerClient("127.0.0.1", broker.queue_port, request_timeout_s=WAIT_S_MAX) as client,
    ):
        client.create_topic("t")
        client.create_subscription("s", "t")
        client.subscribe_to_subscription("s", lambda message: got.append(message.text))
        client.publish_text("t", "before")
        until(lambda: got == ["before"], "nothing comes")
        broker.kill()
        late = threading.Thread(target=lambda: client.publish_text("t", "after"))
        late.start()
        until(lambda: not client.is_connected, "the end is not noticed")
        broker.start()
        late.join(WAIT_S_MAX)
        until(lambda: "after" in got, "nothing comes after the restart")
        assert broker.stop() == 0
        until(lambda: not client.is_connected, "the stop is not noticed")
        broker.start()
        client.publish_text("t", "again")
        until(lambda: "again" in got, "nothing comes after the stop")
    short = BrokerClient("127.0.0.1", broker.queue_port, request_timeout_s=0.2)
    with pytest.raises(errors.Unreachable):
        short.connect()
